// All providers as trees, with what is used of them.

import * as api from './api.js'
import { bar, el, number, show, subject } from './dom.js'
import * as moment from './moment.js'

const page = 200

export async function render(main, _, signal) {
  const answer = await api.get('providers', { at: moment.at() }, signal)
  const byID = new Map(answer.providers.map((p) => [p.provider, p]))
  const children = new Map()
  for (const p of answer.providers) {
    const parent = byID.has(p.parent) ? p.parent : ''
    if (!children.has(parent)) children.set(parent, [])
    children.get(parent).push(p)
  }
  for (const list of children.values()) list.sort((a, b) => a.name.localeCompare(b.name))
  const tree = el('ul', { class: 'tree', 'aria-label': 'Providers' })
  const filter = el('input', { type: 'search', 'aria-label': 'Filter providers by name or uuid', placeholder: 'Filter by name or uuid', input: () => fill() })
  const count = el('span', { class: 'soft', role: 'status' })
  show(main, el('h1', {}, moment.isNow() ? 'Providers' : `Providers at #${answer.sequence}`), totals(answer.providers),
    el('div', { class: 'row' }, el('div', { class: 'grow' }, filter), count), tree,
    answer.incomplete ? el('p', { class: 'error' }, `There are more than ${number(answer.providers.length)} providers; the others are not shown.`) : null)

  function fill() {
    const wanted = filter.value.trim().toLowerCase()
    const list = wanted
      ? answer.providers.filter((p) => p.name.toLowerCase().includes(wanted) || p.provider.startsWith(wanted)).sort((a, b) => a.name.localeCompare(b.name))
      : children.get('') ?? []
    count.textContent = wanted ? `${number(list.length)} of ${number(answer.providers.length)} providers` : `${number(answer.providers.length)} providers in ${number(list.length)} trees`
    show(tree)
    append(tree, list, 0, wanted ? row : node)
  }

  // append shows a page of a list, and a button for the next one.
  function append(parent, list, from, make) {
    parent.append(...list.slice(from, from + page).map(make))
    if (list.length <= from + page) return
    const more = el('li', {}, el('button', { type: 'button', click: () => { more.remove(); append(parent, list, from + page, make) } },
      `Show ${number(Math.min(page, list.length - from - page))} more of ${number(list.length)}`))
    parent.append(more)
  }

  function node(p) {
    const below = children.get(p.provider) ?? []
    if (below.length === 0) return row(p)
    const twist = el('button', { type: 'button', class: 'twist', 'aria-expanded': 'false', 'aria-label': `Providers below ${p.name}`, click: () => toggle() }, '▸')
    const list = el('ul', { hidden: true })
    const item = row(p, twist)
    item.append(list)
    function toggle() {
      if (list.childElementCount === 0) append(list, below, 0, node)
      list.hidden = !list.hidden
      twist.textContent = list.hidden ? '▸' : '▾'
      twist.setAttribute('aria-expanded', String(!list.hidden))
    }
    return item
  }

  function row(p, twist = null) {
    return el('li', {}, el('div', { class: 'provider' },
      el('div', { class: 'name' }, twist instanceof Node ? twist : el('span', { class: 'twist' }), subject('provider', p.provider, p.name || p.provider)),
      el('div', { class: 'bars' }, (p.inventories ?? []).map((inv) => bar(inv.class, inv.used, inv.capacity)))))
  }

  fill()
  let waiting = 0
  return {
    // The figures follow the log, but not every single record.
    record() {
      if (waiting || filter.value) return
      waiting = setTimeout(() => { if (!signal.aborted && tree.querySelector('ul:not([hidden])') === null) render(main, _, signal).catch(() => {}) }, 2000)
    },
  }
}

function totals(providers) {
  const sums = new Map()
  for (const inv of providers.flatMap((p) => p.inventories ?? [])) {
    const sum = sums.get(inv.class) ?? { used: 0, capacity: 0 }
    sums.set(inv.class, { used: sum.used + inv.used, capacity: sum.capacity + inv.capacity })
  }
  if (sums.size === 0) return null
  return el('div', { class: 'card' }, el('div', { class: 'bars' }, [...sums].sort().map(([name, sum]) => bar(name, sum.used, sum.capacity))))
}
