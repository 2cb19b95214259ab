// The page of one thing, whatever it is.

import { linkTo, withQuery } from '../address.js'
import * as api from '../api.js'
import { data } from '../difference.js'
import { bar, card, copy, el, empty, short, show, subject } from '../dom.js'
import * as moment from '../moment.js'
import * as consumer from './consumer.js'
import * as owner from './owner.js'
import * as provider from './provider.js'
import * as thing from './thing.js'
import { table } from '../table.js'

// elsewhere are the addresses of what has a page of its own.
const elsewhere = { record: (name) => linkTo('record', name), topology: (name) => linkTo('topologies', name), class: (name) => withQuery('#/overview', { class: name }), actor: (name) => withQuery('#/timeline', { actor: name }), any: (name) => linkTo('search', name) }

// holding are the questions for the providers that have something.
const holding = { trait: 'required', aggregate: 'member_of' }

const pages = { provider, consumer, project: owner, user: owner, node: thing, node_allocation: thing, chassis: thing, command: { render: renderCommand } }

export async function render(main, address, signal) {
  const [of = ''] = address.rest
  if (pages[of] && address.rest[1]) return pages[of].render(main, address, signal)
  if (elsewhere[of]) {
    location.replace(elsewhere[of](address.rest[1]))
    return {}
  }
  if (holding[of] || of === 'preference') return renderNamed(main, address, signal)
  show(main, el('h1', {}, 'Nothing'), empty(`The ledger has no ${of || 'such thing'}.`, 'Use the search at the top.'))
  return {}
}

// renderNamed shows a trait or aggregate with the providers that have it, or a preference.
async function renderNamed(main, { rest: [of, name] }, signal) {
  const at = moment.at()
  const body = of === 'preference' ? data(await api.placement(`/preferences/${encodeURIComponent(name)}`, { at, signal }))
    : table({ label: 'Providers', file: `${of}-providers`, rows: (await api.placement('/resource_providers', { query: { [holding[of]]: name }, at, signal })).resource_providers,
      columns: [{ title: 'Provider', value: (p) => p.uuid, show: (p) => subject('provider', p.uuid, p.name) }, { title: 'Name', value: (p) => p.name }], nothing: empty('No provider has it.') })
  const limited = of === 'aggregate' ? (await api.placement('/limits', { at, signal })).limits.filter((l) => l.aggregate === name) : []
  const { names } = await api.get('names', { ids: name }, signal)
  show(main, el('h1', {}, `${of} ${names[name] ?? name}`), card(null, names[name] ? el('p', {}, copy(name, short(name))) : null, body),
    limited.length ? card('Limits', el('div', { class: 'bars' }, limited.map((l) => bar(l.resource_class, l.used, l.limit)))) : null)
  return {}
}

// renderCommand goes to the record of a command.
async function renderCommand(main, { rest: [, id] }, signal) {
  const { entries } = await api.get('history', { command: id }, signal)
  if (entries.length) location.replace(linkTo('record', entries[0].address))
  else show(main, el('h1', {}, `Command ${id}`), empty('No record has this command id.', 'It may have been ', el('a', { href: `${linkTo('rejected')}?command_id=${encodeURIComponent(id)}` }, 'rejected'), '.'))
  return {}
}
