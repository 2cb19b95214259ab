// Uses the console of a running server in a real browser.
//
//   node console.mjs URL
//
// The server must hold what fill.mjs and console_test.go put into it. What the
// pages show is compared with what Placement's API answers.

import assert from 'node:assert/strict'
import { createServer, connect } from 'node:net'
import { accessible, download, go, harmless, settled, start, standing, views, visual, whole } from './browser.mjs'
import { hostile, hostName, uuid } from './fill.mjs'

const hosts = 48
const [, , direct] = process.argv
const headers = { 'X-Auth-Token': 'admin', 'Content-Type': 'application/json', 'OpenStack-API-Version': 'placement 1.39' }
const server = await proxy(direct)
const { browser, complaints, open } = await start(server.base)
const [first, second, third] = [0, 1, 2].map((n) => uuid(3, n))
const [home, target] = [uuid(1, 0), uuid(4, 1)]

// proxy stands between the browser and the server, and can make it go away.
async function proxy(url) {
  const { hostname, port } = new URL(url)
  const sockets = new Set()
  let away = false
  const listener = createServer((client) => {
    if (away) return void client.destroy()
    const upstream = connect(Number(port), hostname)
    for (const [from, to] of [[client, upstream], [upstream, client]]) {
      sockets.add(from)
      from.on('error', () => to.destroy()).on('close', () => { sockets.delete(from); to.destroy() })
      from.pipe(to)
    }
  })
  await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve))
  return {
    base: `http://127.0.0.1:${listener.address().port}`, close: () => { sockets.forEach((s) => s.destroy()); listener.close() },
    leave() { away = true; sockets.forEach((s) => s.destroy()) }, comeBack() { away = false },
  }
}

async function ask(path) {
  const response = await fetch(direct + path, { headers })
  assert.equal(response.status, 200, `${path}: ${response.status}`)
  return response.json()
}

const main = (page) => page.locator('main')
const text = async (locator) => (await locator.textContent()).replaceAll(/\s+/g, ' ').trim()
// matches waits until an element has a text: names come after the page.
async function matches(locator, wanted) {
  for (const end = Date.now() + 60_000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 50))) {
    if (wanted.test(await text(locator))) return
  }
  assert.match(await text(locator), wanted)
}

const card = (page, title) => page.locator('section.card').filter({ has: page.getByRole('heading', { level: 2, name: title }) })
const grouped = (n) => new Intl.NumberFormat('en-GB', { useGrouping: 'min2' }).format(n)
const sum = (list) => list.reduce((a, b) => a + b, 0)

// total is how much of a class is used and can be used, by Placement's API.
async function total(name) {
  const { resource_providers: all } = await ask('/resource_providers')
  const inventories = await Promise.all(all.map((p) => ask(`/resource_providers/${p.uuid}/inventories`)))
  const usages = await Promise.all(all.map((p) => ask(`/resource_providers/${p.uuid}/usages`)))
  return {
    count: all.length, roots: all.filter((p) => !p.parent_provider_uuid).length,
    capacity: sum(inventories.map(({ inventories: i }) => (i[name] ? Math.floor((i[name].total - i[name].reserved) * i[name].allocation_ratio) : 0))),
    used: sum(usages.map((u) => u.usages[name] ?? 0)),
  }
}

// moved is the record in which the first server moved, by the audit API.
const history = await ask(`/audit/history?consumer=${first}`)
const moved = history.entries[0]
const goal = moved.after.allocations[0].provider

const steps = {
  async 'a refused token asks again, and one without rights can be changed'() {
    const page = await open({}, '')
    await page.getByLabel('Token').fill('   ')
    await page.keyboard.press('Enter')
    await page.locator('#refused').filter({ hasText: 'This token was refused.' }).waitFor()
    await page.getByLabel('Token').fill('no “token” at all')
    await page.keyboard.press('Enter')
    await page.locator('#login[open] #refused').filter({ hasText: 'This token was refused.' }).waitFor()
    await page.getByLabel('Token').fill('nobody at all')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').filter({ hasText: 'Policy does not allow' }).first().waitFor()
    await matches(page.locator('#badge'), /^No rights$/)
    assert.ok(await page.locator('#away').isHidden(), 'a server that answers is not away')
    await page.getByRole('button', { name: 'Use another token' }).click()
    await page.getByLabel('Token').fill('admin')
    await page.keyboard.press('Enter')
    await page.locator('canvas.heat').waitFor()
    await page.context().close()
  },

  async 'the overview has the sums that Placement has, and what is unusual'(page) {
    await go(page, 'overview?class=VCPU')
    const names = await page.locator('a').evaluateAll((all) => all.map((a) => getComputedStyle(a).unicodeBidi))
    assert.ok(names.every((one) => one === 'isolate'), 'a name turns what follows it')
    const vcpu = await total('VCPU')
    const tiles = await text(page.locator('.tiles'))
    assert.ok(tiles.includes(`${grouped(vcpu.count)}providers`) && tiles.includes(`${grouped(vcpu.roots)}trees`), tiles)
    const tile = await text(page.locator('.class-tile[aria-current=true]'))
    assert.ok(tile.startsWith(`VCPU${Math.round((100 * vcpu.used) / vcpu.capacity)} %${grouped(vcpu.used)} of ${grouped(vcpu.capacity)}`), tile)
    const unusual = await text(card(page, 'Unusual'))
    for (const words of [/Over capacity1 inventory: <img/, /6 \/ 4 VCPU/, /Reservations1 ends soon/, /Verification(No damage found|Not checked yet)/, /Disk.* free/, /Clusterthis server is the only one/]) assert.match(unusual, words)
    const commands = await text(card(page, 'Commands per minute'))
    const { records } = await ask('/audit/status')
    const shown = Number(commands.match(/Accepted ([\d,]+)/)[1].replace(',', ''))
    assert.ok(shown > 0 && shown <= records, commands)
    const { rejections } = await ask('/audit/rejections?limit=1000')
    assert.match(commands, new RegExp(`Rejected ${rejections.length} `))
    await card(page, 'Totals over time').locator('canvas').first().waitFor()
  },

  async 'the heat map is used by mouse and by keyboard'(page) {
    await go(page, 'overview?class=VCPU&order=name')
    const heat = page.locator('canvas.heat')
    await heat.hover({ position: { x: 45, y: 5 } }) // the second cell: the hostile name is the first
    const { usages } = await ask(`/resource_providers/${home}/usages`)
    const tip = await text(page.locator('.tip'))
    assert.ok(tip.startsWith(`host-000${usages.VCPU} of 64 VCPU used`), tip)
    await heat.focus()
    await page.keyboard.press('Home')
    await page.keyboard.press('ArrowRight')
    await matches(page.locator('.heat-status'), /^host-000 ·/)
    await page.keyboard.press('ArrowRight')
    await matches(page.locator('.heat-status'), /^host-001 ·/)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'provider host-001' }).waitFor()
    await page.goBack()
    await heat.click({ position: { x: 45, y: 5 } })
    await page.getByRole('heading', { level: 1, name: 'provider host-000' }).waitFor()
  },

  async 'the heat map is parted by block and rack, and a host has blocks of its holders'(page) {
    await go(page, 'overview?class=VCPU&order=name')
    await page.getByLabel('Racks').selectOption('by block and rack of fabric')
    await page.locator('.heat-groups').first().waitFor()
    const groups = async () => (await page.locator('.heat-groups h3').allInnerTexts()).map((text) => text.replace(/ · \d+ %$/, ''))
    assert.deepEqual(await groups(), ['r0 48', 'r1 24', 'r2 24', 'in no domain 1'])
    await page.locator('canvas.heat').nth(1).focus()
    await page.keyboard.press('Home')
    await matches(page.locator('.heat-status'), /^host-024 ·/)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'provider host-024' }).waitFor()
    await go(page, 'overview?class=VCPU&by=aggregate')
    assert.deepEqual((await groups()).slice(0, 2), ['r1 24', 'r2 24'])
    await go(page, `subject/provider/${home}`)
    const { usages } = await ask(`/resource_providers/${home}/usages`)
    const { allocations } = await ask(`/resource_providers/${home}/allocations`)
    const row = page.locator('.blocks').filter({ hasText: `VCPU${usages.VCPU} / 64` })
    assert.equal(await row.locator('.block').count(), Object.values(allocations).filter((a) => a.resources.VCPU).length)
  },

  async 'a move is told in words, with its record and proof a click away'(page) {
    await go(page, `timeline?consumer=${first}`)
    const words = (await page.locator('.records .words').allTextContents()).map((t) => t.replaceAll(/\s+/g, ' '))
    const { project } = moved.after
    const amounts = ['VCPU', 'MEMORY_MB', 'DISK_GB'].map((name) => `${grouped(moved.after.allocations.find((a) => a.class === name).amount)} ${name}`).join(', ')
    const name = (await ask(`/resource_providers/${goal}`)).name
    assert.equal((await text(page.locator('.records .words').first())), `nova moved consumer 33333333 (project ${project}) from host-000 to ${name}: ${amounts}`)
    assert.equal(words.length, history.entries.length)
    assert.match(words.at(-1), /^nova allocated .* VCPU/)
    await page.locator('.records .address').first().click()
    await page.getByRole('heading', { level: 1, name: `Record #${moved.address}` }).waitFor()
    await page.getByText('The record is in the log', { exact: true }).waitFor()
    await matches(card(page, 'Changed: 1'), /host-000/)
    await page.route('**/audit/proof/record*', async (route) => {
      const response = await route.fetch()
      const evidence = await response.json()
      await route.fulfill({ response, json: { ...evidence, number: evidence.number - 1 } })
    })
    await page.reload()
    await page.getByText('The record is NOT in the tree of this checkpoint').waitFor()
    await page.unroute('**/audit/proof/record*')
  },

  async 'the timeline is filtered, and grows by itself'(page) {
    await go(page, 'timeline')
    await page.locator('summary', { hasText: 'Filters' }).click()
    await page.getByLabel('Command').fill('ReleaseConsumer')
    await page.getByLabel('Actor').fill('nova')
    await page.getByLabel('Provider').fill('host-000')
    await page.getByRole('button', { name: 'Filter', exact: true }).click()
    await page.waitForFunction(() => location.hash.includes('provider=host-000'))
    await settled(page)
    await page.waitForFunction(() => document.querySelectorAll('.records li').length > 0 && [...document.querySelectorAll('.words')].every((w) => /released/.test(w.textContent)))
    const released = await download(page, page.getByRole('button', { name: 'CSV' }))
    assert.match(released.text, /^Record,Time,Actor,Command,In words,Command id,Request\r\n/)
    assert.equal(released.text.trim().split('\r\n').length - 1, await page.locator('.records li').count())
    assert.match(released.text, /nova released consumer 33333333 \(project /)
    await page.getByLabel('Until').fill('2020-01-01T00:00:00')
    await page.getByRole('button', { name: 'Filter', exact: true }).click()
    await page.getByText('No record fits.').waitFor()
    await go(page, 'timeline?actor=nobody')
    await page.getByText('No record fits.').waitFor()
    await go(page, 'timeline?since=noon')
    await page.getByRole('alert').filter({ hasText: 'not an RFC 3339 time' }).waitFor()
    await go(page, 'timeline')
    const before = await page.locator('.records li').count()
    assert.equal((await fetch(`${direct}/traits/CUSTOM_LIVE`, { method: 'PUT', headers })).status, 201)
    await page.locator('.records li.new').filter({ hasText: 'admin created trait CUSTOM_LIVE' }).waitFor()
    await page.getByRole('button', { name: 'Older records' }).click()
    await page.waitForFunction((n) => document.querySelectorAll('.records li').length > n + 1, before)
  },

  async 'a provider shows its holders with owners, its children and its tree'(page) {
    await go(page, `subject/provider/${home}`)
    const { allocations } = await ask(`/resource_providers/${home}/allocations`)
    const rows = card(page, 'Holders').locator('tbody tr')
    await rows.first().waitFor()
    assert.equal(await rows.count(), Object.keys(allocations).length)
    const { entries } = await ask(`/audit/history?consumer=${third}&limit=1`)
    const row = await text(rows.filter({ hasText: third }))
    assert.ok(row.includes(entries[0].after.project) && row.includes(entries[0].after.user) && row.includes('INSTANCE'), row)
    await matches(card(page, /^Tree: 2 providers, 1 just below/), /host-000_pgpu_0/)
    await page.locator('.tree').getByRole('link', { name: 'host-000_pgpu_0' }).click()
    await page.getByRole('heading', { level: 1, name: 'provider host-000_pgpu_0' }).waitFor()
    await page.getByRole('link', { name: 'host-000' }).first().waitFor()
    await matches(card(page, 'What happened'), /created provider host-000_pgpu_0 below host-000/)
  },

  async 'projects and users have tables, charts and histories'(page) {
    await go(page, 'projects')
    const { usages } = await ask('/usages?project_id=astronomy')
    await main(page).getByRole('link', { name: 'astronomy' }).click()
    await page.getByRole('heading', { level: 1, name: 'project astronomy' }).waitFor()
    await card(page, 'Usage over time').locator('canvas').first().waitFor()
    await matches(card(page, 'Usage over time'), new RegExp(`VCPU ${grouped(usages.INSTANCE?.VCPU ?? sum(Object.values(usages).map((u) => u.VCPU ?? 0)))}`))
    await matches(card(page, 'Limits'), /VCPU[\d,]+ \/ 5000/)
    await card(page, 'Consumers').locator('tbody tr').first().waitFor()
    await go(page, 'subject/user/ada')
    await card(page, 'Consumers').locator('tbody tr').first().waitFor()
    await card(page, 'Usage over time').locator('canvas').first().waitFor()
  },

  async 'charts show the span that is picked, in whole minutes, and events are compact until they are opened'(page) {
    await go(page, 'subject/project/astronomy')
    const chart = card(page, 'Usage over time')
    const asked = async (act) => (await Promise.all([page.waitForRequest((r) => r.url().includes('/audit/series') && !r.url().endsWith('points=2')), act()]))[0].url()
    const times = (url) => ['since', 'until'].map((name) => Date.parse(new URL(url).searchParams.get(name)))
    const [since, until] = times(await asked(() => chart.getByLabel('Range').selectOption('last day')))
    assert.ok(since % 900_000 === 0 && until % 900_000 === 0 && Math.abs(until - since - 86400_000) <= 900_000, `${since} to ${until}`)
    assert.match(page.url(), /range=day/)
    await page.reload()
    await settled(page)
    assert.equal(await chart.getByLabel('Range').inputValue(), 'day')
    await chart.getByLabel('Range').selectOption('from – to')
    await chart.getByLabel('From').fill('2026-01-01T00:00:00')
    assert.equal(times(await asked(() => chart.getByRole('button', { name: 'Show', exact: true }).click()))[0] % 86400_000, 0)
    await go(page, 'overview?range=week')
    await card(page, 'Commands per 3 hours').waitFor()
    await go(page, `timeline?consumer=${first}`)
    const record = page.locator('.records > li').first()
    assert.equal(await record.locator('.events, dl').count(), 0)
    await record.locator('summary').click()
    await record.locator('.events summary').first().click()
    await record.locator('.events dl').first().waitFor()
    await go(page, `record/${moved.address}`)
    assert.equal(await page.locator('main pre').count(), 0)
  },

  async 'who held a host is answered for any moment, by time and by sequence'(page) {
    await go(page, `held/provider/${home}`)
    await main(page).locator('tbody tr').first().waitFor()
    assert.equal(await main(page).locator('tbody tr').filter({ hasText: first }).count(), 0, 'it has moved away')
    const sequence = Number(moved.address.split('.')[0])
    const before = (await ask(`/audit/status?at=${sequence - 1}`)).time
    for (const when of [String(sequence - 1), before, new Date(Date.parse(before) + 7200_000).toISOString().replace(/\.\d+Z/, `${before.slice(19, -1)}+02:00`)]) {
      await page.getByRole('button', { name: 'Now' }).click()
      await page.waitForFunction(() => !location.hash.includes('at='))
      await settled(page)
      await page.getByLabel('When').fill(when)
      await page.getByRole('button', { name: 'Show', exact: true }).click()
      await page.waitForFunction((end) => location.hash.endsWith(end), `at=${sequence - 1}`)
      await main(page).locator('tbody tr').filter({ hasText: first }).waitFor()
    }
    await page.getByLabel('When').fill('last tuesday')
    await page.getByRole('button', { name: 'Show', exact: true }).click()
    await page.getByRole('alert').filter({ hasText: 'last tuesday cannot be shown' }).waitFor()
    await page.getByRole('button', { name: 'Now' }).click()
    await page.waitForFunction(() => !location.hash.includes('at='))
    await settled(page)
    await page.getByLabel('Name or uuid').fill('host-001')
    await page.getByRole('button', { name: 'Show', exact: true }).click()
    await page.waitForFunction((id) => location.hash.includes(id), uuid(1, 1))
    await page.getByRole('heading', { level: 2, name: /Who held something of host-001.* now/ }).waitFor()
  },

  async 'an address with a moment in any form shows it, or says why not'(page) {
    const { time } = await ask('/audit/status?at=9')
    for (const at of ['9', time, time.replace('Z', '+00:00')]) {
      await go(page, `timeline?at=${encodeURIComponent(at)}`)
      await page.getByRole('heading', { level: 1, name: 'Timeline up to #9' }).waitFor()
      assert.match(page.url(), /at=9$/)
      if (at === time) { // as from a bookmark
        await page.reload()
        await settled(page)
      }
      await page.getByRole('heading', { level: 1, name: 'Timeline up to #9' }).waitFor()
      await page.getByRole('button', { name: 'Now' }).click()
      await page.getByRole('heading', { level: 1, name: 'Timeline', exact: true }).waitFor()
    }
    for (const at of ['noon', '999999999', '0', '2020-01-01T00:00:00Z']) {
      await go(page, `providers?at=${at}`)
      await page.locator('#moment-problem').filter({ hasText: `${at} cannot be shown` }).waitFor()
      await page.getByRole('heading', { level: 1, name: 'Providers', exact: true }).waitFor()
    }
  },

  async 'tabs have names, errors end with their cause, and pages say what is not of the past'(page) {
    for (const [path, title] of [[`subject/provider/${home}`, 'provider host-000'], [`subject/aggregate/${uuid(6, 1)}`, 'aggregate r1'], ['topologies/fabric', 'Topology fabric'], ['rejected', 'Rejected commands']]) {
      await go(page, path)
      assert.equal(await page.title(), `${title} · Allot`)
    }
    await go(page, 'providers?at=noon')
    await page.locator('#moment-problem').filter({ hasText: 'noon' }).waitFor()
    await go(page, 'timeline')
    await page.locator('#moment-problem').waitFor({ state: 'hidden' })
    await go(page, 'limits')
    await card(page, 'Try a limit').getByLabel('Class').fill('NOTHING')
    await page.getByRole('button', { name: 'Try the limit' }).click()
    await main(page).getByRole('alert').waitFor()
    await card(page, 'Try a limit').getByLabel('Class').fill('VCPU')
    await main(page).getByRole('alert').waitFor({ state: 'detached' })
    for (const path of ['rejected', 'reservations', 'verification', 'limits', 'overview', 'consumption']) {
      await go(page, `${path}?at=9`)
      await page.locator('.notice').filter({ hasText: 'does not apply' }).waitFor()
    }
    await page.getByRole('button', { name: 'Now' }).click()
    await page.locator('.notice').waitFor({ state: 'detached' })
    await page.route('**/audit/proof/record*', async (route) => {
      const response = await route.fetch()
      const evidence = await response.json()
      await route.fulfill({ response, json: { ...evidence, checkpoint: `${evidence.checkpoint.replace('— ops.example', '— signer.example')}— witness.example AAAA\n` } })
    })
    await go(page, `record/${moved.address}`)
    await matches(card(page, 'Proof'), /Signed bysigner\.example, witness\.example/)
    await page.unroute('**/audit/proof/record*')
  },

  async 'the slider and the picker go back in time, and everything with them'(page) {
    await go(page, 'providers')
    await page.getByLabel('Sequence of the moment').fill('6')
    await page.getByRole('heading', { name: 'Providers at #6' }).waitFor()
    await page.getByLabel('Sequence of the moment').focus()
    await page.keyboard.press('ArrowRight')
    await page.getByRole('heading', { name: 'Providers at #7' }).waitFor()
    await page.locator('h1').click()
    await page.keyboard.press('[')
    await page.getByRole('heading', { name: 'Providers at #6' }).waitFor()
    await page.keyboard.press('n')
    await page.getByRole('heading', { name: 'Providers', exact: true }).waitFor()
    const { begun } = await ask('/audit/status')
    const second = new Date(Math.ceil((Date.parse(begun) + 1) / 1000) * 1000).toISOString()
    const { sequence } = await ask(`/audit/status?at=${second}`)
    await page.getByLabel('Time of the moment').fill(second.slice(0, 19))
    await page.getByRole('button', { name: 'Go', exact: true }).click()
    await page.getByRole('heading', { name: `Providers at #${sequence}` }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Now' }).click()
  },

  async 'candidates are explained by form'(page) {
    await go(page, 'candidates')
    await page.getByText('Say what is needed.').waitFor()
    await page.getByLabel('Resources').fill('VCPU:4,VGPU:3')
    await page.getByLabel('Traits').fill('CUSTOM_GOLD')
    await page.getByRole('button', { name: 'Search', exact: true }).click()
    await page.locator('.funnel').first().waitFor()
    const answer = await ask('/allocation_candidates?resources=VCPU:4,VGPU:3&required=CUSTOM_GOLD&limit=20&explain=true')
    await card(page, `${answer.allocation_requests.length} candidates`).waitFor()
    const step = answer.explanation.groups[0].steps[1]
    assert.ok((await text(page.locator('.funnel').first())).includes(`${step.filter}${step.left}−${answer.explanation.groups[0].steps[0].left - step.left}`))
    await page.getByLabel('Aggregates').fill('in:r1,r2')
    await page.getByLabel('In the tree of').fill('host-003')
    await page.getByLabel('Resources').fill('VCPU:1')
    await page.getByRole('button', { name: 'Search', exact: true }).click()
    await card(page, '1 candidates').or(card(page, 'Nothing fits')).first().waitFor()
    assert.match(decodeURIComponent(page.url()), new RegExp(`member_of=in:${uuid(6, 1)},${uuid(6, 2)}&in_tree=${uuid(1, 3)}`))
    assert.equal(await page.getByLabel('Aggregates').inputValue(), 'in:r1,r2')
    assert.equal(await page.getByLabel('In the tree of').inputValue(), 'host-003')
    for (const label of ['Aggregates', 'In the tree of']) await page.getByLabel(label).fill('')
    await page.getByLabel('Resources').fill('VCPU:31,VGPU:9')
    await page.getByRole('button', { name: 'Search', exact: true }).click()
    await card(page, 'Nothing fits').waitFor()
    await matches(card(page, 'Nothing fits'), /The filter that left nothing: /)
    await page.getByLabel('Resources').fill('NOTHING:1')
    await page.getByRole('button', { name: 'Search', exact: true }).click()
    await page.getByRole('alert').filter({ hasText: 'No such resource class' }).or(page.getByRole('alert').filter({ hasText: 'NOTHING' })).first().waitFor()
  },

  async 'why, and what if'(page) {
    await go(page, `subject/consumer/${third}`)
    await page.getByRole('link', { name: 'Why?' }).first().click()
    const held = card(page, 'What it held')
    await matches(held.locator('li').first(), /nova resized consumer 33333333 .* on host-000: .*DISK_GB, before/)
    assert.equal(await held.locator('li').count(), 2)
    await go(page, `what-if?remove=${home}`)
    await page.getByText('would be accepted').waitFor()
    await page.getByText('It would not exist.').waitFor()
    assert.equal((await fetch(`${direct}/resource_providers/${home}`, { headers })).status, 200, 'it was only asked')
    assert.equal(await main(page).locator('pre').count(), 0, 'JSON is a click away')
    await main(page).locator('form').filter({ has: page.getByRole('button', { name: 'Try it out' }) }).locator('summary').click()
    await page.getByLabel('Commands').fill('[{]')
    await page.getByRole('button', { name: 'Try it out' }).click()
    await page.getByRole('alert').filter({ hasText: 'The commands are not JSON' }).waitFor()
    await page.getByLabel('Commands').fill(JSON.stringify([{ command: 'DeleteProvider', body: { provider: home } }]))
    await page.getByRole('button', { name: 'Try it out' }).click()
    await page.getByText('would be rejected').waitFor()
    await go(page, 'what-if')
    const [step, question] = [card(page, 'What would be done'), card(page, 'What would be asked then')]
    await step.getByLabel('Step').selectOption('Change an inventory')
    for (const [label, value] of [['provider', 'host-047'], ['class', 'VCPU'], ['total', '1000'], ['reserved', '0'], ['ratio', '1']]) await step.getByLabel(label).fill(value)
    await step.getByRole('button', { name: 'Add the step' }).click()
    await matches(step.locator('ol'), /update inventory host-047/)
    await question.getByLabel('Question').selectOption('How many more fit?')
    await question.getByLabel('resources').fill('VCPU:1000')
    await question.getByRole('button', { name: 'Add the question' }).click()
    await question.getByLabel('Question').selectOption('Which candidates are there?')
    await question.getByLabel('resources').fill('VCPU:1000')
    await question.getByRole('button', { name: 'Add the question' }).click()
    await question.locator('li').nth(1).waitFor()
    await page.getByRole('button', { name: 'Try it out' }).click()
    await page.getByText('would be accepted').waitFor()
    assert.match(await text(main(page)), /\d more fit|At least/)
    assert.equal(await main(page).locator('pre').count(), 0)
  },

  async 'rejected commands say why, and what was sent'(page) {
    await go(page, 'rejected?project=climate')
    const row = page.locator('tbody tr').filter({ hasText: '1001 of VCPU' })
    await matches(row, /nova could not allocate for consumers: .*host-001.*AllocateForConsumers/)
    await row.locator('summary').click()
    await row.getByText('command_id').waitFor()
    assert.equal(await row.locator('pre').count(), 0, 'JSON is a click away')
    await go(page, 'rejected?actor=nobody')
    await page.getByText('No rejected command fits.').waitFor()
  },

  async 'topologies and counters'(page) {
    await go(page, 'topologies')
    await main(page).getByRole('link', { name: 'fabric' }).click()
    await page.getByLabel('Request').fill('resources=CUSTOM_FPGA:1')
    await page.getByRole('button', { name: 'Count what fits' }).click()
    await matches(card(page, /more fit/).locator('.tree'), /r0 block.*2.*r1 rack.*2.*r2 rack.*0/)
    await go(page, `subject/provider/${uuid(6, 8)}`)
    await matches(card(page, 'Counters'), /SLICE.*0.*7/)
    await go(page, `subject/provider/${uuid(6, 9)}`)
    await matches(card(page, 'Counters'), /one CUSTOM_FPGA draws.*MODE in mode SLICED, 3 SLICE/)
    await go(page, 'candidates?resources=CUSTOM_FPGA:1&in_tree=' + uuid(6, 8))
    await card(page, '2 more fit').waitFor()
  },

  async 'consumption in a month'(page) {
    await go(page, 'projects')
    await main(page).getByRole('link', { name: 'Consumption in a month' }).click()
    await card(page, 'Each day').locator('figure').filter({ hasText: 'VCPU' }).waitFor()
    await page.getByRole('textbox', { name: 'Project' }).fill('climate')
    await page.getByRole('button', { name: 'Show', exact: true }).click()
    await matches(card(page, 'Each project').locator('tbody tr').filter({ hasText: 'VCPU' }), /climate.*VCPU/)
    await go(page, 'consumption?month=2001-01')
    await page.getByText('There is no record of this month.').waitFor()
  },

  async 'orphans, reservations, limits and bare metal'(page) {
    const { consumers } = await ask('/audit/consumers?limit=1000')
    await go(page, 'orphans')
    await page.getByLabel('uuids of all').fill('nothing')
    await page.getByRole('button', { name: 'Compare', exact: true }).click()
    await page.getByRole('alert').filter({ hasText: 'The list holds no uuid' }).waitFor()
    await page.getByLabel('uuids of all').fill([...consumers.slice(3).map((c) => c.consumer), second].join(' '))
    await page.getByRole('button', { name: 'Compare', exact: true }).click()
    await page.getByText(`${grouped(consumers.length)} consumers hold something`).waitFor()
    await matches(page.locator('main .lead'), /: 3 orphans, 1 of the list hold nothing/)
    await go(page, 'overview')
    await page.getByText('3 in the comparison').waitFor()
    await go(page, 'reservations')
    await matches(main(page).locator('tbody tr'), /in \d+ minutes.*reserving.*1 VCPU/)
    await go(page, 'limits')
    await matches(main(page).locator('tbody').first(), /astronomy.*VCPU.*5000/)
    const claim = card(page, 'Try a claim')
    await claim.getByLabel('Request').fill('resources=VCPU:1')
    await claim.getByLabel('Project').fill('web')
    await claim.getByRole('button', { name: 'Try the claim' }).click()
    await claim.getByText('It would be accepted').waitFor()
    const limit = card(page, 'Try a limit')
    await limit.getByLabel('Class').fill('NOTHING')
    await limit.getByRole('button', { name: 'Try the limit' }).click()
    await limit.getByRole('alert').filter({ hasText: 'NOTHING' }).waitFor()
    assert.equal((await ask('/limits')).limits.length, 3, 'nothing was recorded')
    await go(page, `subject/aggregate/${uuid(6, 1)}`)
    await matches(card(page, 'Limits'), /VCPU[\d,]+ \/ 9,?000/)
    await go(page, 'preferences')
    await main(page).getByRole('link', { name: 'packed' }).click()
    await page.getByRole('heading', { level: 1, name: 'preference packed' }).waitFor()
    await go(page, 'baremetal')
    assert.equal(await card(page, /^Nodes$/).locator('tbody tr').count(), 4)
    await card(page, 'Allocations of whole nodes').getByRole('link', { name: 'db-1' }).click()
    await page.getByRole('heading', { level: 1, name: 'node allocation db-1' }).waitFor()
    await matches(main(page), /active/)
  },

  async 'two moments are compared'(page) {
    const sequence = Number(moved.address.split('.')[0])
    await go(page, `compare/${sequence - 1}/${sequence}`)
    await card(page, `Consumers: 1 differ between #${sequence - 1} and #${sequence}`).waitFor()
    await matches(page.locator('tbody').first(), /moved consumer/)
    await page.locator('tbody').first().locator('summary').click()
    await page.locator('.diff').waitFor()
    await page.getByLabel('From').fill('yesterday')
    await page.getByRole('button', { name: 'Compare', exact: true }).click()
    await page.getByRole('alert').filter({ hasText: 'neither a sequence nor' }).waitFor()
  },

  async 'verification shows the audit, a signed checkpoint and proofs'(page) {
    await go(page, 'verification')
    await page.getByText('Signed by ops.example').waitFor()
    await page.locator('main .badge.good').first().waitFor()
    await page.getByRole('button', { name: 'Prove it' }).click()
    await page.getByText(/hashes lead from/).waitFor()
    await page.getByRole('button', { name: 'Compute' }).click()
    await card(page, 'Digests that a replay must give').getByText('read models', { exact: true }).waitFor()
    await page.getByLabel('Address of the record').fill(moved.address)
    await page.getByRole('button', { name: 'Show the proof' }).click()
    await page.getByText('The record is in the log', { exact: true }).waitFor()
  },

  async 'the search finds parts of names and beginnings of uuids, by keyboard'(page) {
    await go(page, 'overview')
    await page.locator('h1').click()
    await page.keyboard.press('/')
    await page.keyboard.type('ost-03')
    const options = page.locator('#matches [role=option]')
    await options.first().waitFor()
    await page.waitForFunction(() => { // not those of a shorter text, which were asked for while one typed
      const shown = [...document.querySelectorAll('#matches [role=option]')]
      return shown.length === 8 && shown.every((option) => option.textContent.includes('ost-03'))
    })
    const first = await options.first().locator('.match').textContent() // the oldest: they were made side by side
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: `provider ${first}` }).waitFor()
    await page.getByLabel('Search').fill(`${third.slice(0, 30)}`)
    await page.keyboard.press('Enter')
    await page.locator('.matches li').first().waitFor()
    await page.getByLabel('Search').fill(third)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: `consumer ${third}` }).waitFor()
    await page.getByLabel('Search').fill('erato')
    await page.keyboard.press('Enter')
    await page.locator('main .matches li').filter({ hasText: 'actoroperator' }).waitFor()
    await page.getByLabel('Search').fill('no such thing')
    await page.keyboard.press('Enter')
    await page.getByText('No match.').waitFor()
    await page.getByLabel('Search').fill(second)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: `consumer ${second}` }).waitFor()
    await page.getByText('does not exist any more').waitFor()
  },

  async 'ids are short until they are wanted, and what has a name is found and called by it'(page) {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await go(page, `subject/provider/${home}`)
    const row = card(page, 'Holders').locator('tbody tr').filter({ hasText: third })
    assert.ok((await row.getByRole('link').first().boundingBox()).width < 90, 'eight characters')
    await row.getByRole('button', { name: `Copy ${third}` }).click()
    await row.locator('button code').filter({ hasText: third }).waitFor()
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), third)
    const aggregate = uuid(6, 1)
    for (const [text, title] of [['CUSTOM_GOLD', 'trait CUSTOM_GOLD'], ['r1', 'aggregate r1'], [moved.address, `Record #${moved.address}`], ['nova', 'Timeline'], ['db-1', 'node allocation db-1'], [aggregate, 'aggregate r1']]) {
      await go(page, 'ask')
      await page.getByLabel('Search').fill(text)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor()
    }
    await page.getByLabel('Search').fill(third.slice(0, 8))
    await page.waitForFunction(() => { // not those of a shorter text
      const all = [...document.querySelectorAll('#matches .match')]
      return all.length === 8 && all.every((one) => one.textContent.startsWith('33333333'))
    })
    const shown = await page.locator('#matches .match').allInnerTexts()
    assert.equal(new Set(shown).size, 8, shown.join())
    assert.ok(shown.every((text) => /^33333333….*\d{2}$/.test(text)), shown.join())
  },

  async 'letters go to pages, and the skip link is the first stop'(page) {
    await go(page, 'overview')
    for (const [key, title] of [['p', 'Providers'], ['t', 'Timeline'], ['j', 'Projects'], ['a', 'Ask'], ['v', 'Verification'], ['w', 'Who held what, and when'], ['c', 'Compare two moments']]) {
      await page.locator('h1').click()
      await page.keyboard.press('g')
      await page.keyboard.press(key)
      await page.getByRole('heading', { level: 1, name: title }).waitFor()
    }
    await page.keyboard.press('?')
    await page.getByRole('heading', { name: 'Keys' }).waitFor()
    await page.keyboard.press('Escape')
    await go(page, 'ask')
    await page.reload()
    await settled(page)
    await page.keyboard.press('Tab')
    assert.equal(await page.evaluate(() => document.activeElement.className), 'skip')
  },

  async 'tables are saved as CSV and JSON, and hostile names are harmless there, too'(page) {
    await go(page, `subject/provider/${home}`)
    await card(page, 'Holders').locator('tbody tr').first().waitFor()
    const { allocations } = await ask(`/resource_providers/${home}/allocations`)
    const csv = await download(page, card(page, 'Holders').getByRole('button', { name: 'CSV' }))
    const lines = csv.text.trim().split('\r\n')
    assert.equal(lines[0], 'Consumer,Project,User,Type,Holds,Providers,Since,Reserved until')
    assert.equal(lines.length - 1, Object.keys(allocations).length)
    const { VCPU, MEMORY_MB, DISK_GB } = allocations[third].resources
    const line = lines.find((l) => l.startsWith(third))
    assert.ok(line.includes(`"${VCPU} VCPU, ${grouped(MEMORY_MB)} MEMORY_MB, ${DISK_GB} DISK_GB"`), line)
    const json = JSON.parse((await download(page, card(page, 'Holders').getByRole('button', { name: 'JSON' }))).text)
    assert.deepEqual(json.map((row) => row.consumer).sort(), Object.keys(allocations).sort())
    await go(page, 'providers')
    const trees = await download(page, page.getByRole('button', { name: 'CSV' }))
    const { roots } = await total('VCPU')
    const names = new Set(trees.text.trim().split('\r\n').slice(1).map((l) => l.match(/"(?:[^"]|"")*"|[^,]*/)[0]))
    assert.equal(names.size, roots)
    assert.ok(names.has(`"${hostile.replaceAll('"', '""')}"`))
    const sentinel = await page.evaluate(async () => (await import('./js/download.js')).csvOf(['a'], [['=1+1'], ['-5'], [-5], ['a"b,c\nd']]))
    assert.equal(sentinel, 'a\r\n\'=1+1\r\n\'-5\r\n-5\r\n"a""b,c\nd"\r\n')
  },

  async 'on a phone the menu is a click away, and rows are cards'() {
    const page = await open({ viewport: { width: 420, height: 800 }, isMobile: true, hasTouch: true })
    await go(page, 'providers?at=30')
    await page.locator('#label').filter({ hasText: 'the past · #30' }).waitFor()
    assert.ok(await page.evaluate(() => document.querySelector('header').offsetHeight) < 80, 'the header takes less than a tenth')
    await page.getByRole('button', { name: 'Menu' }).click()
    await page.getByRole('button', { name: 'Now' }).click()
    await page.getByRole('navigation').getByRole('link', { name: 'Timeline' }).click()
    await page.getByRole('heading', { level: 1, name: 'Timeline' }).waitFor()
    assert.equal(await page.getByRole('navigation').isVisible(), false)
    await go(page, `subject/provider/${home}`)
    const cells = card(page, 'Inventories').locator('tbody tr').first().locator('td')
    const [one, other] = await Promise.all([cells.nth(0).boundingBox(), cells.nth(1).boundingBox()])
    assert.ok(one.x === other.x && one.y < other.y, 'cells are below each other')
    await page.context().close()
  },

  async 'the colours change with the switch'(page) {
    await go(page, 'ask')
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
    const light = await background()
    await page.locator('#theme').click()
    assert.equal(await background(), light)
    await page.locator('#theme').click()
    assert.notEqual(await background(), light)
    await page.reload()
    assert.notEqual(await background(), light, 'it is remembered')
    await page.locator('#theme').click()
  },

  async 'a server that is away is waited for'(page) {
    await go(page, 'timeline')
    server.leave()
    await page.locator('#away').filter({ hasText: 'The server is away.' }).waitFor()
    await page.evaluate(() => { location.hash = '#/projects' })
    await page.locator('.failure').filter({ hasText: 'The server does not answer.' }).waitFor()
    server.comeBack()
    await page.locator('#away').waitFor({ state: 'hidden' })
    await main(page).getByRole('link', { name: 'astronomy' }).waitFor()
    assert.equal(await page.locator('.failure').count(), 0)
  },
}

// look looks at a page as it comes on a narrow screen at night, and then on a wide one by day. What axe says of one
// page of a kind it says of all.
async function look(page, path, kinds) {
  const parts = path.split('?')[0].split('/')
  const kind = parts[0] === 'subject' ? parts.slice(0, 2).join('/') : `${parts[0]} ${parts.length}`
  const first = !kinds.has(kind)
  kinds.add(kind)
  await page.setViewportSize({ width: 420, height: 800 })
  await page.emulateMedia({ colorScheme: 'dark' })
  await go(page, path)
  await whole(page, `${path}, 420 px, dark`)
  if (first) await accessible(page, `${path}, 420 px, dark`, visual)
  await page.setViewportSize({ width: 1400, height: 800 })
  await page.emulateMedia({ colorScheme: 'light' })
  await whole(page, `${path}, 1400 px, light`)
  if (first) await accessible(page, `${path}, 1400 px, light`)
  await harmless(page, path)
}

const only = process.env.CONSOLE_STEP
const page = await open({ viewport: { width: 1280, height: 800 } })
for (const [name, step] of Object.entries(steps)) {
  if (only && !name.includes(only)) continue
  const begun = Date.now()
  await step(page).catch(async (e) => {
    throw new Error(`${name}: ${e.message}\nThe page: ${await standing(page).catch(String)}`, { cause: e })
  })
  await harmless(page, name)
  console.log(`ok   ${name} (${Date.now() - begun} ms)`)
}
if (!only || only === 'views') {
  const [paths, kinds] = [await views(direct), new Set()]
  for (const path of paths) await look(page, path, kinds)
  console.log(`ok   ${paths.length} views, narrow and wide, dark and light; ${kinds.size} kinds by axe`)
}
await browser.close()
server.close()
assert.deepEqual(complaints, [])
assert.equal(hostName(hosts - 1), 'host-047')
