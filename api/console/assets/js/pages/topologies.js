// Topologies, their domains, and how many more of a request fit into each.

import { linkTo, withQuery } from '../address.js'
import * as api from '../api.js'
import { asking, card, copy, el, empty, field, number, short, show } from '../dom.js'
import * as moment from '../moment.js'
import * as lists from './lists.js'
import { fits } from './parts.js'

export async function render(main, address, signal) {
  const { rest: [name], query } = address
  if (!name) return lists.render(main, address, signal)
  const topology = await api.placement(`/topologies/${encodeURIComponent(name)}`, { at: moment.at(), signal })
  const request = field('Request', { value: query.request ?? '', placeholder: 'resources=VCPU:2,MEMORY_MB:2048', required: true })
  const capacity = query.request ? await api.placement('/capacity', { search: `${query.request}&by=topology&topology=${encodeURIComponent(name)}`, at: moment.at(), signal }) : null
  show(main, el('h1', {}, `Topology ${name}`), asking([request], 'Count what fits', (text) => withQuery(linkTo('topologies', name), { request: text.replace(/^\?/, '') })),
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
