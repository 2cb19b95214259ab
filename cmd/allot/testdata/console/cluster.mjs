// Reads the line about the cluster in the overview of one of several servers.
//
//   node cluster.mjs URL KIND TEXT...
//
// KIND is the line's kind (good or bad), and it has all the texts.

import assert from 'node:assert/strict'
import { go, start } from './browser.mjs'

const [base, kind, ...texts] = process.argv.slice(2)
const { browser, complaints, open } = await start(base)
const page = await open()
const line = page.locator('li', { has: page.locator('b', { hasText: /^Cluster$/ }) })
let told = ''
for (const end = Date.now() + 120_000; Date.now() < end;) {
  await go(page, 'overview')
  await line.waitFor()
  told = `${await line.getAttribute('class')}: ${await line.innerText()}`
  if (told.startsWith(kind) && texts.every((t) => told.includes(t))) break
  await page.waitForTimeout(500)
}
console.log(told)
assert.ok(told.startsWith(kind), `${told} is not ${kind}`)
for (const t of texts) assert.ok(told.includes(t), `${told} does not say ${t}`)
assert.deepEqual(complaints, [])
await browser.close()
