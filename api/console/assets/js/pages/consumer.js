// One consumer: what it holds, of which providers, and since when.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { card, el, empty, facts, number, show, subject, time } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { gone, happened, later } from './parts.js'

export async function render(main, { rest: [, id] }, signal) {
  const page = await api.get('history', { consumer: id, limit: 1, at: moment.at() }, signal)
  const state = page.entries[0]?.after
  const past = later('What happened', () => happened({ consumer: id }, signal))
  show(main, el('h1', {}, `consumer ${id}`), page.entries.length === 0
    ? empty('It holds nothing and never did.', 'Check the uuid, or look at a later moment.')
    : state ? holds(id, state) : gone('What it held is released: it'), past)
  await past.ready
  return {}
}

function holds(id, state) {
  return el('div', { class: 'split' }, card('Holds', table({
    label: 'Allocations', file: `consumer-${id}`, rows: state.allocations,
    columns: [
      { title: 'Class', value: (a) => a.class }, { title: 'Amount', number: true, value: (a) => a.amount },
      { title: 'Provider', value: (a) => a.provider, show: (a) => subject('provider', a.provider) },
      { title: 'Why', value: () => '', show: (a) => el('a', { href: linkTo('why', id, a.provider) }, 'Why?') },
    ],
  })), card(null, facts([
    ['project', subject('project', state.project)], ['user', subject('user', state.user)], ['type', state.type || 'unknown'],
    ['generation', number(state.generation)], ['since', time(state.since)], ['changed', time(state.changed)],
    state.reserved_until ? ['reserved until', time(state.reserved_until)] : null,
  ])))
}
