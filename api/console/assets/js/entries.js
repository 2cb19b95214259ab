// Records of the timeline as a list, with the record and its proof a click away.

import { linkTo } from './address.js'
import { data } from './difference.js'
import { saveRows, saving } from './download.js'
import { copy, el, facts, folded, plural, time } from './dom.js'
import { sentence, spaced } from './words.js'

// entry is one record in words.
export function entry(item, isNew = false) {
  return el('li', { class: isNew ? 'new' : null },
    el('div', { class: 'when' }, time(item.time), el('a', { class: 'address', href: linkTo('record', item.address), title: 'The record and its proof' }, `#${item.address}`)),
    el('div', { class: 'what' }, sentence(item), whole(item)))
}

// whole is all of a record, made when it is opened.
function whole(item) {
  const line = [spaced(item.command), item.events ? ` · ${plural(item.event_count, 'event')}` : '']
  return folded(line, () => [facts([['command', copy(item.command_id, item.command_id)],
    item.request_id ? ['request', copy(item.request_id, item.request_id)] : null]), item.events ? eventList(item) : null], { class: 'small' })
}

// eventList shows the events of a record, each in a line until it is opened.
export function eventList({ address, events, event_count: count }) {
  const line = (event) => [el('b', {}, spaced(event.kind)), ' ', brief(event.data)]
  return el('div', {}, el('ul', { class: 'events' }, events.map((event) => el('li', {}, folded(line(event), () => data(event.data))))),
    count > events.length ? el('p', { class: 'soft' }, `The first ${events.length} are shown; GET /audit/records?from=${address.split('.')[0]} has all.`) : null)
}

// brief is the beginning of what an event holds; uuids are left to the whole of it.
const brief = (value) => Object.entries(value ?? {}).filter(([, one]) => ['string', 'number'].includes(typeof one) && !/^[0-9a-f]{8}-/.test(one)).slice(0, 4).map(([key, one]) => `${key.replaceAll('_', ' ')} ${one}`).join(', ').slice(0, 120)

// entries is a list of records, newest first.
export function entries(label, items) {
  return el('ol', { class: 'records', 'aria-label': label }, items.map((item) => entry(item)))
}

// download saves the records that are on the page.
function download(type, items) {
  const rows = items.map((item) => [item.address, item.time, item.actor, item.command, item.text, item.command_id, item.request_id ?? ''])
  saveRows('records', type, ['Record', 'Time', 'Actor', 'Command', 'In words', 'Command id', 'Request'], rows, items)
}

// history is a list that grows by pages on demand. Ask answers a page of the
// timeline for the value of before.
export async function history(label, ask, nothing) {
  const list = entries(label, [])
  const more = el('button', { type: 'button', hidden: true, click: () => older() }, 'Older records')
  const examined = el('p', { class: 'soft', hidden: true }, 'Nothing fits among the records that were examined. There are older ones.')
  const loaded = []
  const saves = el('span', { class: 'row foot' }, more, el('span', { class: 'spring' }), saving((type) => download(type, loaded)))
  let next = ''
  async function older() {
    more.disabled = true
    try {
      const page = await ask(next)
      list.append(...page.entries.map((item) => entry(item)))
      loaded.push(...page.entries)
      next = page.next ?? ''
    } finally {
      more.disabled = false
    }
    more.hidden = !next
    examined.hidden = list.childElementCount > 0 || !next
  }
  await older()
  const node = list.childElementCount === 0 && !next ? nothing : el('div', {}, list, examined, saves)
  return { node, list }
}
