// Reads the page of the proxy.
//
//   node shadow.mjs URL LEADER TEXT...
//
// The page says that LEADER leads, and has all the texts, one of which is a name that
// would run if the page made elements of it.

import assert from 'node:assert/strict'
import { accessible, fits, harmless, settled, start, visual } from './browser.mjs'

const [base, leader, ...texts] = process.argv.slice(2)
const { browser, complaints, open } = await start(base)
for (const [viewport, rules] of [[{ width: 1280, height: 900 }], [{ width: 360, height: 740 }, visual]]) {
  const page = await open({ viewport }, null) // the console's own address leads to the proxy's page
  await settled(page)
  assert.equal(new URL(page.url()).pathname, '/shadow')
  assert.equal(await page.locator('h1').innerText(), `${leader} leads`)
  await page.locator('summary').first().click()
  await page.waitForResponse((answer) => new URL(answer.url()).pathname === '/shadow') // it is drawn once more
  await page.waitForTimeout(100)
  assert.ok(await page.locator('details').first().evaluate((node) => node.open), 'what was opened does not stay open')
  const shown = await page.locator('main').innerText()
  for (const text of texts) assert.ok(shown.includes(text), `the page does not say ${text}:\n${shown}`)
  await fits(page, 'the page')
  await harmless(page, 'the page')
  await accessible(page, 'the page', rules)
  await page.close()
}
assert.deepEqual(complaints, [])
await browser.close()
