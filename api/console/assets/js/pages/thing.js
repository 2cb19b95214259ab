// A bare metal node, a node allocation or a chassis.

import * as api from '../api.js'
import { card, el, empty, facts, kindName, show, subject, time } from '../dom.js'
import * as moment from '../moment.js'
import { gone, happened, holders, later } from './parts.js'

const links = { node: 'node', allocation: 'node_allocation', instance: 'consumer', chassis: 'chassis', owner: 'project', candidate_nodes: 'node' }
const times = ['since', 'changed']

export async function render(main, { rest: [of, id] }, signal) {
  const page = await api.get('history', { [of]: id, limit: 1, at: moment.at() }, signal)
  const state = page.entries[0]?.after
  const past = later('What happened', () => happened({ [of]: id }, signal))
  const held = of === 'node' && state ? later('Holders', async () => card('Holders', await holders(id, empty('No consumer holds anything of it.'), signal))) : null
  show(main, el('h1', {}, `${kindName(of)} ${state?.name || id}`), page.entries.length === 0 ? empty('There is and was no such thing at this moment.') : state ? card(null, facts(Object.entries(state).map((row) => fact(row)))) : gone('It'), held, past)
  await Promise.all([past, held].filter(Boolean).map((part) => part.ready))
  return {}
}

function fact([name, value]) {
  if (value === null || value === '' || (Array.isArray(value) && value.length === 0)) return null
  const title = name.replaceAll('_', ' ')
  if (times.includes(name)) return [title, time(value)]
  const of = links[name]
  if (of && Array.isArray(value)) return [title, value.slice(0, 20).map((one) => el('div', {}, subject(of, one)))]
  if (of && typeof value === 'string') return [title, subject(of, value)]
  if (typeof value === 'object') return [title, Array.isArray(value) && value.every((one) => typeof one === 'string') ? value.join(', ') : el('code', {}, JSON.stringify(value))]
  return [title, String(value)]
}

