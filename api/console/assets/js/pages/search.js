// Entities by name or id, and those with the text in their names.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { card, el, empty, kindName, show, short, subject } from '../dom.js'
import * as moment from '../moment.js'

export async function render(main, { rest: [text = ''] }, signal) {
  const [exact, similar] = await Promise.all([api.get('find', { q: text, at: moment.at() }, signal), api.get('search', { q: text, limit: 200, at: moment.at() }, signal)])
  const only = exact.found.length === 1 && similar.matches.length <= 1 ? exact.found[0] : exact.found.length === 0 && similar.matches.length === 1 ? similar.matches[0] : null
  if (only) {
    location.replace(linkTo('subject', only.of, only.name))
    return {}
  }
  const known = new Set(similar.matches.map((m) => `${m.of} ${m.name}`))
  const list = [...exact.found.filter((f) => !known.has(`${f.of} ${f.name}`)), ...similar.matches]
  show(main, el('h1', {}, `Search: ${text}`), card(null, list.length === 0
    ? empty('No match.', 'The search looks for parts of names and ids, and for the beginning of uuids. What is gone is found by its whole name or uuid.')
    : el('ul', { class: 'matches' }, list.map((one) => el('li', {}, el('span', { class: 'kind' }, kindName(one.of)), one.title ? [subject(one.of, one.name, one.title), el('span', { class: 'uuid' }, short(one.name))] : subject(one.of, one.name)))),
  similar.incomplete ? el('p', { class: 'soft' }, 'There is more than is shown: make the text longer.') : null))
  return {}
}
