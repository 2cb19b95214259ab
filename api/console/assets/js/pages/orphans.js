// Consumers that hold something, compared with a list of those that may.

import * as api from '../api.js'
import { area, card, el, empty, form, number, show } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { holderColumns } from './parts.js'

const key = 'allot-orphans'
const pattern = /[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/gi

// lastComparison is the outcome of the last comparison in this tab; null: there
// was none.
export function lastComparison() {
  return JSON.parse(sessionStorage.getItem(key) ?? 'null')
}

export async function render(main, _, signal) {
  const list = area('uuids of all consumers that may hold something: any text or JSON that holds them', '', { rows: 8, placeholder: 'openstack server list --all-projects -f json' })
  const file = el('input', { type: 'file', 'aria-label': 'Read the list from a file', change: async () => { if (file.files[0]) list.input.value = await file.files[0].text() } })
  const asked = form([list, { node: el('div', { class: 'field' }, el('label', {}, 'or from a file ', file)) }], 'Compare', () => compare(list.value(), signal))
  show(main, el('h1', {}, 'Who should not be there?'), el('p', { class: 'soft' }, 'The list must hold every consumer that may hold something, such as servers and migrations. Nothing is released here: ', el('code', {}, 'allot orphans --yes'), ' does that.'), card(null, asked.node))
  return {}
}

const canonical = (text) => text.toLowerCase().replaceAll('-', '').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')

async function compare(text, signal) {
  const known = new Set((text.match(pattern) ?? []).map(canonical))
  if (known.size === 0) throw new Error('The list holds no uuid. An empty list would make every consumer an orphan.')
  const orphans = []
  const seen = new Set()
  let count = 0
  const at = moment.sequence()
  for (let after = ''; ;) {
    const page = await api.get('consumers', { after, limit: 1000, at }, signal)
    for (const one of page.consumers) {
      count++
      if (known.has(one.consumer)) seen.add(one.consumer)
      else orphans.push(one)
    }
    if (!page.next) break
    after = page.next
  }
  sessionStorage.setItem(key, JSON.stringify({ time: new Date().toISOString(), orphans: orphans.length }))
  const missing = [...known].filter((id) => !seen.has(id)).map((id) => ({ consumer: id }))
  return [el('p', { class: 'lead' }, `${number(count)} consumers hold something at #${at}: ${number(orphans.length)} orphans, ${number(missing.length)} of the list hold nothing.`),
    el('h3', {}, 'Orphans'), table({
      label: 'Orphans', file: 'orphans', rows: orphans, nothing: empty('There are no orphans.'),
      columns: holderColumns,
    }), el('h3', {}, 'Without allocations'), table({
      label: 'Owners without allocations', file: 'missing', rows: missing, nothing: empty('All of the list hold something.'),
      columns: holderColumns.slice(0, 1),
    })]
}
