// Uses the console of a server with 22,000 providers, more than are shown at once.
//
//   node many.mjs URL

import assert from 'node:assert/strict'
import { fits, go, start } from './browser.mjs'

const base = process.argv[2]
const { browser, complaints, open } = await start(base)
const page = await open({ viewport: { width: 1280, height: 800 } })
const nodes = () => page.evaluate(() => document.querySelectorAll('*').length)
const most = 2500 // elements of a page

const timed = async (name, run) => {
  const begun = performance.now()
  await run()
  console.log(`${name}: ${Math.round(performance.now() - begun)} ms, ${await nodes()} elements`)
  assert.ok(await nodes() < most, `${name} has ${await nodes()} elements`)
}

// trees asks for a page of trees.
const trees = async (offset) => (await fetch(`${base}/audit/trees?limit=1&offset=${offset}`, { headers: { 'X-Auth-Token': 'admin' } })).json()
const { count } = await trees(0)
const nameOf = async (n) => (await trees(n)).trees[0].name

await timed('overview', async () => {
  await go(page, 'overview?class=VCPU&order=fullest')
  await page.getByText(/The first 20,000 of 21,\d+ are shown/).waitFor()
  await page.getByText('22,000').first().waitFor()
})
await timed('the last cell by keyboard', async () => {
  await page.locator('canvas.heat').focus()
  await page.keyboard.press('Home')
  await page.keyboard.press('End')
  await page.locator('.heat-status b').waitFor()
})
await timed('trends', () => page.locator('.trends canvas').first().waitFor())
await timed('providers', async () => {
  await go(page, 'providers')
  await page.getByText('21,').first().waitFor()
  await page.locator('.virtual-row .name').first().waitFor()
})
await timed('the end of the list', async () => {
  await page.locator('.virtual').evaluate((box) => { box.scrollTop = box.scrollHeight })
  await page.locator('.virtual-row').getByText(await nameOf(count - 1)).waitFor()
})
await timed('the middle of the list', async () => {
  await page.locator('.virtual').evaluate((box) => { box.scrollTop = box.scrollHeight / 2 })
  await page.locator('.virtual-row').getByText(await nameOf(Math.floor(count / 2))).waitFor()
})
await timed('by fullness', async () => {
  await page.getByLabel('Class').selectOption('VCPU')
  await page.waitForFunction(() => location.hash.includes('class=VCPU'))
  await page.locator('.virtual-row .name').first().waitFor()
})
await timed('a part of a name', async () => {
  await page.getByLabel('Search').fill('777')
  await page.locator('#matches [role=option]').first().waitFor()
  assert.equal(await page.locator('#matches [role=option]').count(), 8)
})
await timed('the past', async () => {
  await go(page, 'overview?class=VCPU&order=fullest&at=20')
  await page.locator('canvas.heat').waitFor()
})
await fits(page, 'the overview of 22,000 providers')
await browser.close()
assert.deepEqual(complaints, [])
