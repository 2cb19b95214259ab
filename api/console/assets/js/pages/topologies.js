// Topologies, their domains, and how many more of a request fit into each.

import { linkTo, withQuery } from '../address.js'
import * as api from '../api.js'
import { card, copy, el, empty, field, number, short, show } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { fits } from './parts.js'

export async function render(main, { rest: [name], query }, signal) {
  if (name) return one(main, name, query, signal)
  const { topologies } = await api.placement('/topologies', { at: moment.at(), signal })
  show(main, el('h1', {}, moment.isNow() ? 'Topologies' : `Topologies at #${moment.sequence()}`), card(null, table({
    label: 'Topologies', file: 'topologies', rows: topologies, nothing: empty('There are none.', 'PUT /topologies/NAME declares which aggregates are racks, blocks and the like.'),
    columns: [
      { title: 'Topology', value: (t) => t.name, show: (t) => el('a', { href: linkTo('topologies', t.name) }, t.name) },
      { title: 'Levels', value: (t) => t.levels.join(' › ') }, { title: 'Domains', number: true, value: (t) => t.member_count },
    ],
  })))
  return {}
}

async function one(main, name, query, signal) {
  const topology = await api.placement(`/topologies/${encodeURIComponent(name)}`, { at: moment.at(), signal })
  const request = field('Request', { value: query.request ?? '', placeholder: 'resources=VCPU:2,MEMORY_MB:2048', required: true })
  const capacity = query.request ? await api.placement('/capacity', { search: `${query.request}&by=topology&topology=${encodeURIComponent(name)}`, at: moment.at(), signal }) : null
  show(main, el('h1', {}, `Topology ${name}`), el('form', {
    class: 'form card', submit: (event) => {
      event.preventDefault()
      location.hash = withQuery(linkTo('topologies', name), { request: request.value().replace(/^\?/, '') })
    },
  }, request.node, el('div', { class: 'field' }, el('button', { type: 'submit', class: 'primary' }, 'Count what fits'))),
  card(capacity ? fits(capacity) : topology.levels.join(' › '), domains(topology, capacity)))
  return {}
}

// domains is the tree of the domains, each with what fits into it.
function domains(topology, capacity) {
  const room = new Map((capacity?.aggregates ?? []).map((one) => [one.aggregate, one.capacity]))
  const inside = Map.groupBy(Object.entries(topology.members), ([, member]) => member.parent ?? '')
  const node = ([id, member]) => el('li', {},
    el('div', { class: 'provider' }, el('div', { class: 'name' }, el('a', { href: linkTo('subject', 'aggregate', id) }, member.name), ` ${member.level} `, copy(id, short(id))), room.has(id) ? el('div', {}, number(room.get(id))) : null),
    inside.has(id) ? el('ul', {}, byName(inside.get(id)).map(node)) : null)
  return inside.has('') ? el('ul', { class: 'tree' }, byName(inside.get('')).map(node)) : empty('It has no domains.')
}

const byName = (list) => list.toSorted(([, a], [, b]) => a.name.localeCompare(b.name, undefined, { numeric: true }))
