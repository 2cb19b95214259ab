// The log in words, newest record first, as it grows, and with filters.

import * as api from '../api.js'
import { el, empty, field, filtering, localTime, show } from '../dom.js'
import { commands } from '../words.js'
import { entry, history } from '../entries.js'
import * as moment from '../moment.js'

const maxRecords = 300 // that a growing page keeps
const filters = ['command', 'actor', 'project', 'user', 'provider', 'consumer', 'node', 'node_allocation', 'chassis', 'since', 'until']
const times = ['since', 'until']

export async function render(main, { query }, signal) {
  const given = Object.fromEntries(filters.filter((name) => query[name]).map((name) => [name, query[name]]))
  const found = await history('Records, newest first', (before) => api.get('timeline', { ...given, before, limit: 25, at: moment.at() }, signal),
    empty('No record fits.', Object.keys(given).length ? 'Take away a filter, or look at another moment.' : 'Nothing has happened yet.'))
  show(main, el('h1', {}, moment.isNow() ? 'Timeline' : `Timeline up to #${moment.sequence()}`), filterForm(given), found.node)
  if (!moment.isNow()) return {}
  return { record: (record) => grow(record, given, found, main, { query }, signal) }
}

// grow adds a new record, if it fits, once the server tells it in words.
async function grow(record, given, found, main, address, signal) {
  const fresh = await api.get('timeline', { ...given, before: `${record.sequence}.${record.index + 1}`, limit: 1 }, signal).catch(() => null)
  const item = fresh?.entries[0]
  if (!item || item.address !== `${record.sequence}.${record.index}` || signal.aborted) return
  if (!found.list.isConnected) return void render(main, address, signal).catch(() => {})
  const later = [...found.list.children].find((li) => li.dataset.address === item.address)
  if (later) return
  found.list.prepend(entry(item, true))
  while (found.list.childElementCount > maxRecords) found.list.lastElementChild.remove()
}

function filterForm(given) {
  return filtering('#/timeline', given, filters.map((name) => {
    const title = name[0].toUpperCase() + name.slice(1)
    if (!times.includes(name)) {
      const placeholder = ['provider', 'node'].includes(name) ? 'uuid or name' : ''
      return [name, field(title, { value: given[name] ?? '', placeholder }, name === 'command' ? commands : null)]
    }
    const one = field(title, { type: 'datetime-local', step: 1, value: given[name] ? localTime(given[name]) : '' })
    return [name, { ...one, value: () => (one.value() ? new Date(one.value()).toISOString() : '') }]
  }))
}
