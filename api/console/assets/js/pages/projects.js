// All projects, and how much they hold.

import { withQuery } from '../address.js'
import * as api from '../api.js'
import { asking, el, empty, field, number, show } from '../dom.js'
import * as moment from '../moment.js'
import { ownersTable } from './owner.js'

export async function render(main, { query }, signal) {
  const answer = await api.get('owners', { q: query.q ?? '', limit: 1000, at: moment.at() }, signal)
  const part = field('Part of the id', { type: 'search', value: query.q ?? '' })
  show(main, el('h1', {}, moment.isNow() ? 'Projects' : `Projects at #${moment.sequence()}`),
    asking([part], 'Filter', (q) => withQuery('#/projects', { q })),
    el('p', { class: 'soft' }, `${number(answer.count)} projects · `, el('a', { href: '#/consumption' }, 'Consumption in a month')),
    el('section', { class: 'card' }, answer.owners.length === 0 ? empty(query.q ? 'No project fits.' : 'Nothing is held.', query.q ? 'Shorten the filter.' : 'Projects appear here with their first allocation.') : ownersTable('', answer)))
  return {}
}
