// One provider: what it has, who holds it, where it is in its tree.

import { linkTo, withQuery } from '../address.js'
import * as api from '../api.js'
import { amounts, bar, byImportance, card, el, empty, facts, number, short, show, subject } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { summed } from '../words.js'
import { gone, happened, holders, later, overTime } from './parts.js'

export async function render(main, { rest: [, id] }, signal) {
  const page = await api.get('history', { provider: id, limit: 1, at: moment.at() }, signal)
  const state = page.entries[0]?.after
  if (page.entries.length === 0) {
    show(main, el('h1', {}, `provider ${id}`), empty('There is and was no such provider at this moment.', 'Look for a part of its name with the search at the top.'))
    return {}
  }
  const parts = [later('Usage over time', () => overTime({ provider: id }, `provider-${id}`, signal)), later('What happened', () => happened({ provider: id }, signal))]
  if (!state) {
    const { names } = await api.get('names', { ids: id }, signal)
    show(main, el('h1', {}, `provider ${names[id] ?? id}`), gone('It'), parts)
    return ready(parts)
  }
  const asked = api.get('tree', { provider: id, at: moment.at() }, signal)
  const held = later('Holders', async () => card('Holders', await blocks(id, await asked, signal), await holders(id, empty('Nothing of it is held.'), signal)))
  const tree = later('Tree', async () => treeCard(id, await asked))
  show(main, el('h1', {}, `provider ${state.name}`), el('div', { class: 'split' },
    el('div', {}, card('Inventories', inventories(id, state)), counters(state) ? later('Counters', () => countersCard(id, signal)) : null),
    card(null, facts([
      ['uuid', el('code', {}, id)], ['generation', number(state.generation)], state.parent ? ['parent', subject('provider', state.parent)] : null,
      ['traits', state.traits.length ? el('details', { open: state.traits.length < 12 }, el('summary', {}, number(state.traits.length)), state.traits.map((name, i) => [i ? ', ' : '', subject('trait', name)])) : 'none'],
      ['aggregates', state.aggregates.length ? state.aggregates.map((a) => el('div', {}, subject('aggregate', a))) : 'none'],
    ]), el('p', {}, el('a', { href: linkTo('held', 'provider', id) }, 'Who held it at another time'), ' · ',
      el('a', { href: withQuery(linkTo('what-if'), { remove: id }) }, 'What if it were removed')))),
  held, tree, parts)
  return ready([held, tree, ...parts])
}

const maxBlocks = 100

const counters = (state) => (state.counters ?? []).length + (state.draws ?? []).length > 0

// countersCard is what the provider shares out, and what its classes draw from those above.
async function countersCard(id, signal) {
  const answer = await api.placement(`/resource_providers/${id}/counters`, { at: moment.at(), signal })
  const draws = Object.entries(answer.draws ?? {}).map(([name, drawn]) => [`one ${name} draws`, Object.entries(drawn).map(([counter, amount]) => (typeof amount === 'string' ? `${counter} in mode ${amount}` : `${number(amount)} ${counter}`)).join(', ')])
  return card('Counters', el('div', { class: 'bars' }, Object.entries(answer.counters ?? {}).map(([name, total]) => bar(name, total - (answer.left?.[name] ?? total), total))), draws.length ? facts(draws) : null)
}

async function ready(parts) {
  await Promise.all(parts.map((part) => part.ready))
  return {}
}

function inventories(id, state) {
  if (state.inventories.length === 0) return empty('It has no inventory.', 'Nothing can be allocated of it.')
  return [el('div', { class: 'bars' }, state.inventories.map((inv) => bar(inv.class, inv.used, inv.capacity))),
    table({
      label: 'Inventories', file: `inventories-${id}`, rows: state.inventories,
      columns: [
        { title: 'Class', value: (i) => i.class }, { title: 'Used', number: true, value: (i) => i.used }, { title: 'Capacity', number: true, value: (i) => i.capacity },
        { title: 'Total', number: true, value: (i) => i.total }, { title: 'Reserved', number: true, value: (i) => i.reserved },
        { title: 'Ratio', number: true, value: (i) => i.allocation_ratio, show: (i) => String(i.allocation_ratio) },
        { title: 'Units', value: (i) => `${i.min_unit} to ${i.max_unit} by ${i.step_size}` },
      ],
    })]
}

// blocks show who takes how much of the provider and of all that is nested in it.
async function blocks(id, tree, signal) {
  const { holders: list } = await api.get('holders', { provider: id, tree: true, limit: maxBlocks, at: moment.at() }, signal)
  const nested = new Set([id])
  for (let n = 0; n < nested.size;) {
    n = nested.size
    for (const p of tree.providers) if (nested.has(p.parent)) nested.add(p.provider)
  }
  const sums = {}
  for (const inv of tree.providers.filter((p) => nested.has(p.provider)).flatMap((p) => p.inventories ?? [])) {
    sums[inv.class] = { used: (sums[inv.class]?.used ?? 0) + inv.used, capacity: (sums[inv.class]?.capacity ?? 0) + inv.capacity }
  }
  return Object.keys(sums).sort(byImportance).map((name) => el('div', { class: 'blocks' }, el('span', {}, name), el('span', { class: 'soft' }, `${number(sums[name].used)} / ${number(sums[name].capacity)}`),
    el('div', { class: 'track' }, list.filter((c) => summed(c)[name]).map((c) => {
      const block = el('a', { class: 'block', href: linkTo('subject', 'consumer', c.consumer), tabindex: -1, title: `${short(c.consumer)} of ${c.project}: ${amounts(summed(c))}`, 'aria-label': `${c.consumer}: ${number(summed(c)[name])} ${name}` })
      block.style.width = `${(100 * summed(c)[name]) / Math.max(1, sums[name].capacity, sums[name].used)}%`
      return block
    }))))
}

// treeCard is the tree with this provider marked.
function treeCard(id, tree) {
  const children = new Map()
  for (const p of tree.providers) {
    const parent = p.parent ?? ''
    if (!children.has(parent)) children.set(parent, [])
    children.get(parent).push(p)
  }
  const node = (p) => el('li', {},
    el('div', { class: `provider${p.provider === id ? ' here' : ''}` }, el('div', { class: 'name' }, p.provider === id ? el('b', {}, p.name) : subject('provider', p.provider, p.name || p.provider)),
      el('div', { class: 'bars' }, (p.inventories ?? []).map((inv) => bar(inv.class, inv.used, inv.capacity)))),
    children.has(p.provider) ? el('ul', {}, children.get(p.provider).map(node)) : null)
  const below = children.get(id)?.length ?? 0
  return card(`Tree: ${number(tree.providers.length)} providers, ${number(below)} just below this one`,
    tree.providers.length === 1 ? empty('It stands alone.', 'It has no parent and no children.') : el('ul', { class: 'tree' }, (children.get('') ?? []).map(node)),
    tree.incomplete ? el('p', { class: 'error' }, 'The tree has more providers than are shown.') : null)
}
