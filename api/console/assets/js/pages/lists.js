// Lists of what there is, each on a page of its own.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { age, amounts, card, el, empty, show, subject, time } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { summed } from '../words.js'

const plain = (title, key) => ({ title, value: (row) => row[key] ?? '' })
const linked = (title, of, key, name = '') => ({ title, value: (row) => row[key] ?? '', show: (row) => (row[key] ? subject(of, row[key], row[name] || null) : '') })
const each = (title, of, list) => ({ title, value: (row) => list(row).join(' '), show: (row) => list(row).map((id) => el('div', {}, subject(of, id))) })
const named = (page) => ({ title: 'Name', value: (row) => row.name, show: (row) => el('a', { href: linkTo(...page, row.name) }, row.name) })

// nodesOf asks for pages of Ironic's API.
const nodesOf = (path, key) => async function page(signal, marker = '') {
  const answer = await api.baremetal(path, { limit: 500, marker }, moment.at(), signal)
  return { rows: answer[key], more: answer.next && answer[key].length ? () => page(signal, answer[key].at(-1).uuid) : null }
}

// all asks for a list of Placement's API that comes whole.
const all = (key) => async (signal) => ({ rows: (await api.placement(`/${key}`, { at: moment.at(), signal }))[key] })

// lists are the pages: titles, and tables with what is said where they are empty.
const lists = {
  reservations: ['Reservations', [{
    label: 'Reservations', ask: async (signal) => {
      const { reservations, incomplete } = await api.get('reservations', { limit: 1000 }, signal)
      return { rows: reservations, incomplete }
    },
    nothing: ['Nothing is reserved.', 'A reservation is made with the command Reserve over NATS.'],
    columns: [
      { title: 'Ends', value: (r) => r.reserved_until, show: (r) => [age(r.reserved_until), ' · ', time(r.reserved_until)] },
      linked('Consumer', 'consumer', 'consumer'), linked('Project', 'project', 'project'), linked('User', 'user', 'user'),
      each('May draw', 'project', (r) => r.projects ?? []), { title: 'Holds', value: (r) => amounts(summed(r)) },
      each('Providers', 'provider', (r) => [...new Set(r.allocations.map((a) => a.provider))]),
    ],
  }]],
  preferences: ['Preferences', [{
    label: 'Preferences', ask: all('preferences'), nothing: ['No preference has a name.', 'PUT /preferences/NAME gives one to what claims prefer.'],
    columns: [named(['subject', 'preference']), { title: 'Prefers', long: true, value: (p) => JSON.stringify(p.prefer) }, { title: 'Since commit', number: true, value: (p) => p.sequence }],
  }]],
  topologies: ['Topologies', [{
    label: 'Topologies', ask: all('topologies'), nothing: ['There are none.', 'PUT /topologies/NAME declares which aggregates are racks, blocks and the like.'],
    columns: [named(['topologies']), { title: 'Levels', value: (t) => t.levels.join(' › ') }, { title: 'Domains', number: true, value: (t) => t.member_count }],
  }]],
  baremetal: ['Bare metal', [{
    label: 'Nodes', ask: nodesOf('nodes/detail', 'nodes'), nothing: ['No node is enrolled.', 'POST /baremetal/v1/nodes enrols one.'],
    columns: [
      linked('Node', 'node', 'uuid', 'name'), plain('Name', 'name'), plain('Class', 'resource_class'), plain('State', 'provision_state'), plain('Power', 'power_state'),
      { title: 'Maintenance', value: (n) => (n.maintenance ? n.maintenance_reason || 'yes' : '') }, linked('Allocation', 'node_allocation', 'allocation_uuid'),
    ],
  }, {
    label: 'Allocations of whole nodes', ask: nodesOf('allocations', 'allocations'), nothing: ['No node is allocated.', 'POST /baremetal/v1/allocations asks for one.'],
    columns: [
      linked('Allocation', 'node_allocation', 'uuid', 'name'), plain('Name', 'name'), plain('Class', 'resource_class'), plain('State', 'state'),
      linked('Node', 'node', 'node_uuid'), linked('Owner', 'project', 'owner'), plain('Error', 'last_error'),
    ],
  }]],
}

export async function render(main, { name }, signal) {
  const [title, tables] = lists[name]
  const answers = await Promise.all(tables.map((one) => one.ask(signal)))
  show(main, el('h1', {}, moment.isNow() || name === 'reservations' ? title : `${title} at #${moment.sequence()}`), tables.map((one, i) => card(tables.length > 1 ? one.label : null,
    table({ label: one.label, file: one.label.toLowerCase().replaceAll(' ', '-'), columns: one.columns, ...answers[i], nothing: empty(...one.nothing) }),
    answers[i].incomplete ? el('p', { class: 'error' }, `There are more ${one.label.toLowerCase()} than are shown.`) : null)))
  return {}
}
