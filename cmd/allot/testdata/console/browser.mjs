// A browser that looks at the console, and what all tests of it need.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'
import { hostile, uuid } from './fill.mjs'

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

// start opens a browser. Its complaints are what no page may cause.
export async function start(base) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find(existsSync),
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  })
  const complaints = []

  // open opens the console of a server with a token.
  async function open(options = {}, token = 'admin', at = base) {
    const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'UTC', reducedMotion: 'reduce', acceptDownloads: true, ...options })
    if (token) await context.addInitScript((t) => { sessionStorage['allot-token'] ??= t }, token)
    const page = await context.newPage()
    page.on('console', (m) => { if (m.type() === 'error' && !/status of 40[0134]|ERR_(CONNECTION|EMPTY|INCOMPLETE|SOCKET)/.test(m.text())) complaints.push(m.text()) })
    page.on('pageerror', (e) => complaints.push(String(e.stack)))
    page.on('dialog', (d) => { complaints.push(`dialog: ${d.message()}`); d.dismiss() })
    page.on('request', (r) => { if (!r.url().startsWith(at) && !/^(data|blob):/.test(r.url())) complaints.push(`another host: ${r.url()}`) })
    page.setDefaultTimeout(Number(process.env.CONSOLE_WAIT ?? 60_000))
    await page.goto(`${at}/console/`)
    return page
  }
  return { browser, complaints, open }
}

// go shows a page of the console and waits until it is whole.
export async function go(page, path) {
  const target = `#/${path}`
  if (await page.evaluate((t) => location.hash === t, target)) await page.reload()
  else await page.evaluate((t) => { document.querySelector('main').setAttribute('aria-busy', 'true'); location.hash = t }, target)
  await settled(page)
}

export async function settled(page) {
  await page.waitForFunction(() => document.querySelector('main').childElementCount > 0 && !document.querySelector('main').hasAttribute('aria-busy'))
}

// standing tells where a page stands, for who reads why a step of a test failed.
export const standing = (page) => page.evaluate(() => JSON.stringify({
  hash: location.hash, title: document.querySelector('h1')?.textContent, busy: document.querySelector('main').hasAttribute('aria-busy'),
  focus: document.activeElement?.id || document.activeElement?.tagName, search: document.querySelector('#q').value,
  matches: [...document.querySelectorAll('#matches [role=option]')].map((o) => o.textContent), hidden: document.querySelector('#matches').hidden,
}))

// fits: nothing sticks out to the side.
export async function fits(page, what) {
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth])
  assert.ok(content <= width, `${what} is ${content} wide in a window of ${width}`)
  const top = await page.evaluate(() => document.querySelector('header').offsetHeight / innerHeight)
  assert.ok(width > 500 || top < 0.1, `${what}: the header takes ${top} of the height`)
}

// views are all pages, of what fill.mjs has made. The first of a kind has the most in it.
export async function views(base) {
  const ask = async (path) => (await fetch(base + path, { headers: { 'X-Auth-Token': 'admin', 'X-OpenStack-Ironic-API-Version': '1.78' } })).json()
  const { address } = (await ask(`/audit/history?consumer=${uuid(3, 0)}`)).entries[0]
  const { nodes: [node] } = await ask('/baremetal/v1/nodes')
  const [sequence, named, home, over] = [Number(address.split('.')[0]), encodeURIComponent(hostile), uuid(1, 0), uuid(4, 1)]
  return [
    'overview?class=VCPU&by=topology:fabric', 'overview?class=VCPU', 'overview?class=VCPU&range=hour', 'timeline', `timeline?project=${named}`, 'providers', 'projects', 'consumption', `subject/provider/${home}`, `subject/provider/${over}`,
    `subject/provider/${uuid(6, 8)}`, `subject/consumer/${uuid(4, 2)}`, `subject/project/${named}`, 'subject/project/astronomy', `subject/user/${named}`, `subject/node/${node.uuid}`, `subject/aggregate/${uuid(6, 1)}`, 'subject/trait/CUSTOM_GOLD',
    `held/provider/${home}`, `held/provider/${over}`, 'ask', 'candidates?resources=VCPU:4', `why/${uuid(4, 2)}/${over}`, `what-if?remove=${over}`, `what-if?remove=${home}`, 'orphans', 'rejected', 'rejected?project=climate', 'reservations', 'limits', 'topologies', 'preferences', 'subject/preference/packed',
    'topologies/fabric?request=resources%3DVCPU%3A1', 'baremetal', `compare/${sequence - 1}/${sequence + 40}`, 'verification', `record/${address}`, `search/${named}`, 'search/host-0', 'search/nothing%20at%20all', 'overview?at=9',
  ]
}

// whole: a page has come, and shows all that it says, by name.
export async function whole(page, what) {
  await page.waitForFunction(() => ![...document.querySelectorAll('main .soft')].some((p) => p.textContent === '…'))
  for (const end = Date.now() + 5000; ; await page.waitForTimeout(100)) { // names come after the page
    const [clipped, raw] = await page.evaluate(faults)
    const names = raw.length ? await page.evaluate(async (ids) => (await (await import('./js/api.js')).get('names', { ids: ids.join(',') })).names, raw) : {}
    if (Date.now() < end && clipped.length + Object.keys(names).length > 0) continue
    assert.deepEqual([clipped, names], [[], {}], `${what} clips text, or shows uuids of what has a name`)
    return fits(page, what)
  }
}

// faults finds texts that are cut off, and uuids in sight. It runs in the page.
function faults() {
  const shown = (node) => node.checkVisibility({ visibilityProperty: true }) && !node.closest('.hidden, .skip, .rest')
  const clipped = [...document.querySelectorAll('header *, main *')].filter((node) => shown(node) && node.textContent.trim() && !node.closest('pre')
    && node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== 'visible' && node.clientWidth > 0)
  const raw = new Set()
  for (const input of document.querySelectorAll('main input:not([type=datetime-local], [type=month], [type=file])')) {
    const { value } = input
    if (/^[0-9a-f]{8}-[0-9a-f]{4}-.{27}$/.test(value)) raw.add(value)
    input.value ||= input.placeholder
    const widest = input.clientWidth > 0.9 * input.form?.clientWidth // more scrolls
    if (shown(input) && !widest && input.scrollWidth > input.clientWidth + 1) clipped.push(input)
    input.value = value
  }
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement
    if (!shown(node) || node.closest('pre, textarea, code')) continue
    for (const [id] of texts.currentNode.data.matchAll(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g)) raw.add(id)
  }
  return [clipped.map((node) => `${node.tagName}.${node.className}: ${(node.textContent || node.placeholder).slice(0, 80)} (${node.scrollWidth} in ${node.clientWidth})`), [...raw]]
}

// harmless: no name has become a part of the page.
export async function harmless(page, what) {
  assert.equal(await page.evaluate(() => window.pwned), undefined, `${what} ran a name`)
  assert.equal(await page.locator('main img, main script, main b b, header script').count(), 0, `${what} made elements of a name`)
}

// visual are axe's rules about what colours and sizes change; all others say the same of a page in each.
export const visual = ['color-contrast', 'link-in-text-block', 'scrollable-region-focusable']

// accessible: axe finds nothing serious, by some rules or by all.
export async function accessible(page, what, rules) {
  if (!await page.evaluate(() => 'axe' in window)) await page.evaluate(axe)
  const options = { resultTypes: ['violations'], ...(rules ? { runOnly: rules } : {}) }
  const run = () => page.evaluate((o) => window.axe.run(document, o), options)
  // It fails over an element that the page replaces meanwhile.
  const { violations } = await run().catch(run).catch(run)
  const serious = violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
  assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html} ${n.failureSummary}`).join(' | ')}`), [], what)
}

// download saves a table that a button belongs to, and answers its text.
export async function download(page, button) {
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()])
  return { name: file.suggestedFilename(), text: await readFile(await file.path(), 'utf8') }
}
