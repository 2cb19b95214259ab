// Tables that can be sorted and downloaded, and that show a page at a time.

import { saveRows, saving } from './download.js'
import { el, empty, number, show } from './dom.js'

const page = 100
const maxDownloaded = 50_000

// table shows rows. Columns have a title, the value of a row (for sorting and
// for files), optionally a node to show instead, and number: true for figures.
// More, if there are more rows, asks for the next ones and answers
// { rows, more }.
export function table({ label, file, columns, rows, more = null, nothing = null }) {
  let list = [...rows]
  let next = more
  let shown = page
  let sorted = null // { column, down }
  const body = el('tbody')
  const foot = el('div', { class: 'row foot' })
  const heads = columns.map((column) => {
    const button = el('button', { type: 'button', class: 'sort', click: () => sort(column) }, column.title)
    return el('th', { scope: 'col', class: column.number ? 'number' : null, 'aria-sort': 'none' }, button)
  })

  function sort(column) {
    sorted = { column, down: sorted?.column === column ? !sorted.down : Boolean(column.number) }
    fill()
  }

  function ordered() {
    if (!sorted) return list
    const { column, down } = sorted
    const by = (a, b) => (column.number ? (a ?? -Infinity) - (b ?? -Infinity) : String(a ?? '').localeCompare(String(b ?? '')))
    return [...list].sort((a, b) => by(column.value(a), column.value(b)) * (down ? -1 : 1))
  }

  function fill() {
    heads.forEach((head, i) => head.setAttribute('aria-sort', sorted?.column === columns[i] ? (sorted.down ? 'descending' : 'ascending') : 'none'))
    show(body, ordered().slice(0, shown).map((row) => el('tr', {}, columns.map((column) => {
      const value = column.show ? column.show(row) : column.number ? (column.value(row) === undefined ? '' : number(column.value(row))) : column.value(row)
      return el('td', { class: column.number ? 'number' : column.long ? 'long' : null, 'data-title': column.title }, el('div', {}, value))
    }))))
    const left = list.length - Math.min(shown, list.length)
    show(foot,
      el('span', { class: 'soft' }, `${number(list.length)}${next ? ' loaded, and there are more' : ''}`),
      left > 0 || next ? el('button', { type: 'button', click: grow }, left > 0 ? `Show ${number(Math.min(page, left))} more` : 'Load more') : null,
      el('span', { class: 'spring' }),
      saving(download))
  }

  async function grow() {
    if (shown >= list.length && next) await load()
    shown += page
    fill()
  }

  async function load() {
    const answer = await next()
    list = list.concat(answer.rows)
    next = answer.more ?? null
  }

  // download saves all rows, those that are not loaded yet included.
  async function download(type) {
    while (next && list.length < maxDownloaded) await load()
    fill()
    const rows = ordered()
    saveRows(`${file}${next ? `-first-${list.length}` : ''}`, type, columns.map((c) => c.title), rows.map((row) => columns.map((c) => c.value(row))), rows)
  }

  if (list.length === 0 && !next) return nothing ?? empty('Nothing.')
  fill()
  return el('div', {}, el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label },
    el('table', {}, el('caption', { class: 'hidden' }, label), el('thead', {}, el('tr', {}, heads)), body)), foot)
}
