// A list of any length of which only the rows in sight exist. Its pages are asked
// of the server when they come into sight.

import { el, number } from './dom.js'

const pageSize = 100
const around = 8 // rows above and below what is in sight

// virtual shows a list. Ask answers { count, rows } for an offset and a limit;
// make makes the content of a row.
export async function virtual({ label, height, ask, make, counted }) {
  const pages = new Map() // promises of rows, by number of page
  const rows = new Map() // rows that exist, by their number
  let count = 0
  const inner = el('div', { class: 'virtual-inner', role: 'list', 'aria-label': label })
  const box = el('div', { class: 'virtual', tabindex: 0, role: 'region', 'aria-label': `${label}, scrolls` }, inner)

  function page(n) {
    if (!pages.has(n)) {
      pages.set(n, ask(n * pageSize, pageSize).then((answer) => {
        count = answer.count
        return answer.rows
      }))
      pages.get(n).catch(() => pages.delete(n)) // it is asked for again when it comes into sight
    }
    return pages.get(n)
  }

  function fill() {
    const first = Math.max(0, Math.floor(box.scrollTop / height) - around)
    const last = Math.min(count, Math.ceil((box.scrollTop + box.clientHeight) / height) + around)
    for (const [i, row] of rows) {
      if (i >= first && i < last) continue
      row.remove()
      rows.delete(i)
    }
    for (let i = first; i < last; i++) if (!rows.has(i)) place(i)
  }

  function place(i) {
    const row = el('div', { class: 'virtual-row', role: 'listitem', 'aria-posinset': i + 1, 'aria-setsize': count })
    row.style.top = `${i * height}px`
    row.style.height = `${height}px`
    rows.set(i, row)
    inner.append(row)
    page(Math.floor(i / pageSize)).then((list) => {
      const value = list[i % pageSize]
      if (value && rows.get(i) === row) row.append(make(value))
    }).catch(() => { row.textContent = '…' })
  }

  await page(0)
  counted(count, number(count))
  inner.style.height = `${count * height}px`
  box.style.height = `${Math.min(count * height + 2, Math.max(240, innerHeight - 300))}px`
  let waiting = false
  box.addEventListener('scroll', () => {
    if (waiting) return
    waiting = true
    requestAnimationFrame(() => { waiting = false; fill() })
  })
  requestAnimationFrame(fill)
  return box
}
