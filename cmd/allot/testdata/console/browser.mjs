// A browser that looks at the console, and what all tests of it need.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

// start opens a browser. Its complaints are what no page may cause.
export async function start(base) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  })
  const complaints = []

  // open opens the console with a token.
  async function open(options = {}, token = 'admin') {
    const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'UTC', reducedMotion: 'reduce', acceptDownloads: true, ...options })
    const page = await context.newPage()
    page.on('console', (m) => { if (m.type() === 'error' && !/status of 40[0134]|ERR_(CONNECTION|EMPTY|INCOMPLETE|SOCKET)/.test(m.text())) complaints.push(m.text()) })
    page.on('pageerror', (e) => complaints.push(String(e.stack)))
    page.on('dialog', (d) => { complaints.push(`dialog: ${d.message()}`); d.dismiss() })
    page.on('request', (r) => { if (!r.url().startsWith(base) && !/^(data|blob):/.test(r.url())) complaints.push(`another host: ${r.url()}`) })
    page.setDefaultTimeout(Number(process.env.CONSOLE_WAIT ?? 60_000))
    await page.goto(`${base}/console/`)
    if (!token) return page
    await page.evaluate((t) => sessionStorage.setItem('allot-token', t), token)
    await page.reload()
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
}

// harmless: no name has become a part of the page.
export async function harmless(page, what) {
  assert.equal(await page.evaluate(() => window.pwned), undefined, `${what} ran a name`)
  assert.equal(await page.locator('main img, main script, main b b, header script').count(), 0, `${what} made elements of a name`)
}

// accessible: axe finds nothing serious.
export async function accessible(page, what) {
  await page.evaluate(axe)
  const run = () => page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
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
