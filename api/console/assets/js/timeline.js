// The log, newest record first, and as it grows.

import * as api from './api.js'
import { el, json, show, subject, time } from './dom.js'
import * as moment from './moment.js'

const pageCommits = 50
const maxRecords = 400 // that are shown; older ones are a click away
const keys = { consumer: 'consumer', provider: 'provider', node: 'node', allocation: 'node_allocation', chassis: 'chassis', project: 'project', user: 'user' }

// subjectsOf finds what a record is about.
function subjectsOf(record) {
  const found = new Map()
  for (const event of record.events ?? []) {
    for (const [key, value] of Object.entries(event.data ?? {})) {
      if (keys[key] && typeof value === 'string' && value) found.set(`${keys[key]} ${value}`, [keys[key], value])
    }
  }
  return [...found.values()]
}

// entry is one record.
export function entry(record, isNew = false) {
  const subjects = subjectsOf(record)
  const kinds = new Map()
  for (const event of record.events ?? []) kinds.set(event.kind, (kinds.get(event.kind) ?? 0) + 1)
  return el('li', { class: isNew ? 'new' : null },
    el('div', { class: 'line' },
      el('span', { class: 'mono' }, `${record.sequence}.${record.index}`), time(record.time),
      el('span', { title: 'actor' }, record.actor), el('span', { class: 'what' }, record.command)),
    el('div', {}, subjects.slice(0, 6).map(([of, name]) => el('span', {}, el('span', { class: 'soft' }, `${of.replace('_', ' ')} `), subject(of, name), ' ')),
      subjects.length > 6 ? el('span', { class: 'soft' }, `and ${subjects.length - 6} more`) : null),
    details([...kinds].map(([kind, n]) => (n > 1 ? `${n} × ${kind}` : kind)).join(', '), record))
}

// details are made when they are opened: a record may be long.
function details(summary, record) {
  const node = el('details', { toggle: () => { if (node.open && node.childElementCount === 1) node.append(json(record)) } }, el('summary', {}, summary))
  return node
}

export async function render(main, _, signal) {
  const upTo = moment.sequence()
  const list = el('ol', { class: 'records', 'aria-label': 'Records, newest first' })
  const more = el('button', { type: 'button', click: () => older() }, 'Older records')
  show(main, el('h1', {}, moment.isNow() ? 'Timeline' : `Timeline up to #${upTo}`), list, more)
  let next = upTo
  async function older() {
    const from = Math.max(1, next - pageCommits + 1)
    const found = await api.records({ from, at: next, limit: 5000 }, signal)
    list.append(...found.reverse().slice(0, maxRecords).map((record) => entry(record)))
    next = from - 1
    more.hidden = next < 1
  }
  await older()
  if (!moment.isNow()) return {}
  return {
    record(record) {
      list.prepend(entry(record, true))
      while (list.childElementCount > maxRecords && list.lastElementChild) {
        list.lastElementChild.remove()
        next = Math.max(next, Number(list.lastElementChild?.querySelector('.mono')?.textContent.split('.')[0] ?? 1) - 1)
      }
      more.hidden = next < 1
    },
  }
}
