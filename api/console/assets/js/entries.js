// Records of the timeline as a list, with the record and its proof a click away.

import { linkTo } from './address.js'
import { el, time } from './dom.js'
import { sentence, spaced } from './words.js'

// entry is one record in words.
export function entry(item, isNew = false) {
  return el('li', { class: isNew ? 'new' : null },
    el('div', { class: 'when' }, time(item.time), el('a', { class: 'address', href: linkTo('record', item.address), title: 'The record and its proof' }, `#${item.address}`)),
    el('div', { class: 'what' }, sentence(item),
      el('p', { class: 'soft small' }, spaced(item.command), item.request_id ? ` · request ${item.request_id}` : null)))
}

// entries is a list of records, newest first.
export function entries(label, items) {
  return el('ol', { class: 'records', 'aria-label': label }, items.map((item) => entry(item)))
}

// history is a list that grows by pages on demand. Ask answers a page of the
// timeline for the value of before.
export async function history(label, ask, nothing) {
  const list = entries(label, [])
  const more = el('button', { type: 'button', hidden: true, click: () => older() }, 'Older records')
  const examined = el('p', { class: 'soft', hidden: true }, 'Nothing fits among the records that were examined. There are older ones.')
  let next = ''
  async function older() {
    more.disabled = true
    try {
      const page = await ask(next)
      list.append(...page.entries.map((item) => entry(item)))
      next = page.next ?? ''
    } finally {
      more.disabled = false
    }
    more.hidden = !next
    examined.hidden = list.childElementCount > 0 || !next
  }
  await older()
  const node = list.childElementCount === 0 && !next ? nothing : el('div', {}, list, examined, more)
  return { node, list }
}
