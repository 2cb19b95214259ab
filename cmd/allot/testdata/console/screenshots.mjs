// Makes the pictures of the documentation.
//
//   node screenshots.mjs URL FOLDER

import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { go, start } from './browser.mjs'
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
  await page.waitForFunction(() => ![...document.querySelectorAll('main .soft')].some((p) => p.textContent === '…'))
  await page.waitForTimeout(500) // the charts are drawn a frame later
  const file = join(folder, `${name}.png`)
  await page.screenshot({ path: file })
  const { size } = await stat(file)
  if (size > maxBytes) throw new Error(`${file} has ${size} bytes`)
  console.log(`${file}: ${size} bytes`)
  await page.context().close()
}
await browser.close()
