// Reads the line about the cluster in the overviews of two servers: of one while all are there, and of
// the other once a third was killed.
//
//   node cluster.mjs URL OTHER PID WHOLE LESS
//
// The lines have all the texts of WHOLE and LESS, between which stand commas.

import assert from 'node:assert/strict'
import { go, start } from './browser.mjs'

const [url, other, pid, whole, less] = process.argv.slice(2)
const { browser, complaints, open } = await start(url)

// tells waits until the line of a server is of a kind, and has texts.
async function tells(base, kind, texts) {
  const page = await open({}, 'admin', base)
  const line = page.locator('li', { has: page.locator('b', { hasText: /^Cluster$/ }) })
  let told = ''
  for (const [end, paths] = [Date.now() + 120_000, ['overview', 'overview?class=VCPU']]; Date.now() < end; paths.reverse()) {
    await go(page, paths[0]) // another one than before, which would be loaded as a whole
    await line.waitFor()
    told = `${await line.getAttribute('class')}: ${await line.innerText()}`
    if (told.startsWith(kind) && texts.every((t) => told.includes(t))) break
    await page.waitForTimeout(500)
  }
  console.log(told)
  assert.ok(told.startsWith(kind), `${told} is not ${kind}`)
  for (const t of texts) assert.ok(told.includes(t), `${told} does not say ${t}`)
  await page.context().close()
}

await tells(url, 'good', whole.split(','))
process.kill(Number(pid), 'SIGKILL')
await tells(other, 'bad', less.split(','))
await browser.close()
assert.deepEqual(complaints, [])
