// Entities by name or id, and those with the text in their names.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { card, copy, el, empty, kindName, show, short, subject } from '../dom.js'
import * as moment from '../moment.js'

export async function render(main, { rest: [text = ''] }, signal) {
  const at = moment.at()
  const [exact, similar] = await Promise.all([api.get('find', { q: text, at }, signal), api.get('search', { q: text, limit: 200, at }, signal)])
  const isActor = (m) => m.of === 'actor' && m.name === text // found by all of its name
  const [found, matches] = [[...exact.found, ...similar.matches.filter(isActor)], similar.matches.filter((m) => !isActor(m))]
  const only = found.length === 1 && matches.length <= 1 ? found[0] : found.length === 0 && matches.length === 1 ? matches[0] : null
  if (only) {
    location.replace(linkTo('subject', only.of, only.name))
    return {}
  }
  const known = new Set(similar.matches.map((m) => `${m.of} ${m.name}`))
  const list = [...exact.found.filter((f) => !known.has(`${f.of} ${f.name}`)), ...similar.matches]
  show(main, el('h1', {}, `Search: ${text}`), card(null, list.length === 0
    ? empty('No match.', 'The search looks for parts of names and ids, and for the beginning of uuids. What is gone is found by its whole name or uuid.')
    : el('ul', { class: 'matches' }, list.map((one) => el('li', {}, el('span', { class: 'kind' }, kindName(one.of)), one.title ? [subject(one.of, one.name, one.title), copy(one.name, short(one.name, list.filter((other) => other.title === one.title).map((other) => other.name)))] : subject(one.of, one.name)))),
  similar.incomplete ? el('p', { class: 'soft' }, 'There is more than is shown: make the text longer.') : null))
  return {}
}
