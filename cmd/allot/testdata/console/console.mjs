// Uses the console of a running server in a real browser.
//
//   node console.mjs URL FOLDER-FOR-SCREENSHOTS
//
// The server must hold what console_test.go puts into it.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { chromium } from 'playwright-core'

const [base, folder] = process.argv.slice(2)
const hostile = '<img src=x onerror="window.pwned=1">"><script>window.pwned=1</script>'
const headers = { 'X-Auth-Token': 'admin', 'Content-Type': 'application/json', 'OpenStack-API-Version': 'placement 1.39' }

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
})
const complaints = []

async function open(options) {
  const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'UTC', reducedMotion: 'reduce', ...options })
  const page = await context.newPage()
  page.on('console', (m) => { if (m.type() === 'error' && !/status of 40[013]/.test(m.text())) complaints.push(m.text()) })
  page.on('pageerror', (e) => complaints.push(String(e)))
  page.on('dialog', (d) => { complaints.push(`dialog: ${d.message()}`); d.dismiss() })
  page.on('request', (r) => { if (!r.url().startsWith(base) && !r.url().startsWith('data:')) complaints.push(`another host: ${r.url()}`) })
  page.setDefaultTimeout(20_000)
  await page.goto(`${base}/console/`)
  await page.getByLabel('Token').fill('nobody at all')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').filter({ hasText: 'Policy does not allow' }).first().waitFor()
  await page.getByRole('button', { name: 'Forget token' }).click()
  await page.getByLabel('Token').fill('admin')
  await page.keyboard.press('Enter')
  await page.locator('.records li').first().waitFor()
  return page
}

const shot = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) })

// fits: nothing sticks out to the side.
async function fits(page, what) {
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth])
  assert.ok(content <= width, `${what} is ${content} wide in a window of ${width}`)
}

const steps = {
  async 'the timeline shows the log and grows by itself'(page) {
    const before = await page.locator('.records li').count()
    assert.ok(before >= 10, `${before} records`)
    const response = await fetch(`${base}/traits/CUSTOM_LIVE`, { method: 'PUT', headers })
    assert.equal(response.status, 201)
    const newest = page.locator('.records li.new').first()
    await newest.waitFor()
    assert.match(await newest.textContent(), /CreateTrait/)
    await newest.locator('summary').click()
    assert.match(await newest.locator('pre').textContent(), /CUSTOM_LIVE/)
    await shot(page, 'timeline')
  },

  async 'older records come on demand'(page) {
    const before = await page.locator('.records li').count()
    await page.getByRole('button', { name: 'Older records' }).click()
    await page.waitForFunction((n) => document.querySelectorAll('.records li').length > n, before)
  },

  async 'ten thousand providers are shown, filtered and unfolded by keyboard'(page) {
    await page.getByRole('link', { name: 'Providers' }).click()
    await page.getByText(/10,\d+ providers in/).waitFor()
    assert.ok(await page.locator('.provider').count() <= 201, 'not all at once')
    await shot(page, 'providers')
    const twist = page.getByRole('button', { name: /^Providers below/ }).first()
    await twist.focus()
    await page.keyboard.press('Enter')
    assert.equal(await twist.getAttribute('aria-expanded'), 'true')
    await page.getByText('numa0').first().waitFor()
    await page.getByRole('button', { name: /more of/ }).click()
    assert.ok(await page.locator('.provider').count() > 300)
    await page.getByLabel('Filter providers').fill('host-07777')
    await page.getByText('1 of').waitFor()
    assert.equal(await page.locator('.provider').count(), 1)
  },

  async 'hostile names are text'(page) {
    await page.getByLabel('Filter providers').fill('<img')
    const row = page.locator('.provider').first()
    await page.getByText('1 of').waitFor()
    assert.equal((await row.locator('.name a').textContent()).trim(), hostile)
    await row.locator('.name a').click()
    await page.getByRole('heading', { level: 1 }).filter({ hasText: '<script>' }).waitFor()
    await page.locator('canvas').first().waitFor()
    await shot(page, 'provider')
    assert.equal(await page.evaluate(() => window.pwned), undefined)
    await page.getByText('What happened').waitFor()
    assert.equal(await page.locator('main img, main script').count(), 0)
  },

  async 'a search finds a consumer, whose history has before and after'(page) {
    await page.getByLabel('Search').fill('22222222-2222-4222-8222-000000000001')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: /^consumer 22222222/ }).waitFor()
    await page.getByRole('cell', { name: 'VCPU' }).first().waitFor()
    const changes = page.locator('.diff').first()
    assert.match(await changes.textContent(), /amount/)
    await shot(page, 'consumer')
    await page.getByLabel('Search').fill('no such thing')
    await page.keyboard.press('Enter')
    await page.getByText('Nothing is called so.').waitFor()
    await page.getByLabel('Search').fill('<b>project</b>')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'project <b>project</b>' }).waitFor()
    await page.locator('canvas').first().waitFor()
  },

  async 'the slider goes back in time, and everything with it'(page) {
    await page.getByRole('link', { name: 'Providers' }).click()
    await page.getByText(/10,\d+ providers in/).waitFor()
    await page.getByLabel('Sequence of the moment').fill('3')
    await page.getByRole('heading', { name: 'Providers at #3' }).waitFor()
    assert.match(page.url(), /at=3/)
    assert.ok(await page.locator('.provider').count() < 5)
    await page.getByLabel('Sequence of the moment').focus()
    await page.keyboard.press('ArrowRight')
    await page.getByRole('heading', { name: 'Providers at #4' }).waitFor()
    await page.getByRole('link', { name: 'Timeline' }).click()
    await page.getByRole('heading', { name: 'Timeline up to #4' }).waitFor()
    assert.equal((await page.locator('.records .mono').first().textContent()).split('.')[0], '4')
    await shot(page, 'past')
    await page.reload()
    await page.getByRole('heading', { name: 'Timeline up to #4' }).waitFor()
    await page.getByRole('button', { name: 'Now' }).click()
    await page.getByRole('heading', { name: 'Timeline', exact: true }).waitFor()
  },

  async 'two moments are compared side by side'(page) {
    await page.getByRole('link', { name: 'Compare' }).click()
    await page.getByLabel('From').fill('5')
    await page.getByRole('button', { name: 'Compare' }).click()
    await page.getByText(/Providers: [\d,]+ differ between #5/).waitFor()
    await page.getByText(/Consumers: [1-9]\d* differ/).waitFor()
    const first = page.locator('details.card').last()
    await first.locator('summary').click({ position: { x: 5, y: 5 } })
    await first.locator('.diff').waitFor()
    await shot(page, 'compare')
    await page.getByLabel('From').fill('yesterday')
    await page.getByRole('button', { name: 'Compare' }).click()
    await page.getByRole('alert').filter({ hasText: 'neither a sequence nor' }).waitFor()
  },

  async 'verification shows the audit and a signed checkpoint'(page) {
    await page.getByRole('navigation').getByRole('link', { name: 'Verification' }).click()
    await page.getByText('Signed by ops.example').waitFor()
    await page.locator('main .badge.good').first().waitFor()
    await shot(page, 'verification')
  },

  async 'the skip link is the first stop of the keyboard'(page) {
    await page.goto(`${base}/console/#/timeline`)
    await page.reload()
    await page.locator('.records li').first().waitFor()
    await page.keyboard.press('Tab')
    assert.equal(await page.evaluate(() => document.activeElement.className), 'skip')
  },
}

const page = await open({ viewport: { width: 1280, height: 800 } })
for (const [name, step] of Object.entries(steps)) {
  await step(page).catch((e) => { throw new Error(`${name}: ${e.message}`, { cause: e }) })
  await fits(page, name)
  console.log(`ok   ${name}`)
}

for (const [name, options] of Object.entries({
  phone: { viewport: { width: 375, height: 720 }, hasTouch: true, isMobile: true },
  'phone-dark': { viewport: { width: 375, height: 720 }, colorScheme: 'dark' },
  dark: { viewport: { width: 1280, height: 800 }, colorScheme: 'dark' },
})) {
  const other = await open(options)
  for (const path of ['timeline', 'providers', 'subject/consumer/22222222-2222-4222-8222-000000000001', 'compare/1/9', 'verification']) {
    await other.goto(`${base}/console/#/${path}`)
    await other.waitForFunction(() => !document.getElementById('main').hasAttribute('aria-busy'))
    await fits(other, `${path} on ${name}`)
    await shot(other, `${name}-${path.split('/')[0]}`)
  }
  console.log(`ok   ${name}`)
}
await browser.close()
assert.deepEqual(complaints, [])
