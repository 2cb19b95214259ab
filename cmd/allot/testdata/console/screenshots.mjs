// Makes pictures: those of the documentation, and of every page in every size, each
// of which is looked at for what is cut off, unnamed or hard to read.
//
//   node screenshots.mjs URL FOLDER

import assert from 'node:assert/strict'
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { accessible, go, start, views, whole } from './browser.mjs'
import { uuid } from './fill.mjs'

const maxBytes = 300_000
const [, , base, folder] = process.argv
const { browser, open } = await start(base)

const pictures = [
  ['console', 'overview?class=VCPU&order=fullest', { width: 1280, height: 860 }, 'light'],
  ['console-dark', 'overview?class=VCPU&order=fullest', { width: 1280, height: 860 }, 'dark'],
  ['console-timeline', 'timeline?actor=nova', { width: 1280, height: 720 }, 'light'],
  ['console-provider', `subject/provider/${uuid(1, 0)}`, { width: 1280, height: 860 }, 'light'],
  ['console-candidates', 'candidates?resources=VCPU:4,VGPU:3&required=CUSTOM_GOLD&limit=20', { width: 1280, height: 720 }, 'dark'],
  ['console-phone', 'overview?class=VCPU&order=fullest', { width: 420, height: 860 }, 'dark'],
]

for (const [name, path, viewport, colorScheme] of pictures) {
  const page = await open({ viewport, colorScheme })
  await go(page, path)
  await page.waitForTimeout(500) // the charts are drawn a frame later
  const file = join(folder, `${name}.png`)
  await page.screenshot({ path: file })
  const { size } = await stat(file)
  if (size > maxBytes) throw new Error(`${file} has ${size} bytes`)
  console.log(`${file}: ${size} bytes`)
  await page.context().close()
}

const faults = []
const paths = await views(base)
for (const [name, options] of [['1400', { viewport: { width: 1400, height: 900 } }], ['dark', { viewport: { width: 1400, height: 900 }, colorScheme: 'dark' }], ['420', { viewport: { width: 420, height: 860 }, isMobile: true, hasTouch: true }]]) {
  await mkdir(join(folder, 'pages', name), { recursive: true })
  const page = await open(options)
  for (const path of paths) {
    await go(page, path)
    for (const check of [whole, accessible]) await check(page, `${path}, ${name}`).catch((fault) => faults.push(fault.message))
    await page.screenshot({ path: join(folder, 'pages', name, `${path.replaceAll(/[^\w.]+/g, '-').slice(0, 80)}.png`), fullPage: true })
  }
  await page.context().close()
}
await browser.close()
assert.deepEqual(faults, [])
