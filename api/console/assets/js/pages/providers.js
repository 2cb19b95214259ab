// All trees of providers, by name or by how full they are.

import { withQuery } from '../address.js'
import * as api from '../api.js'
import { bar, choice, el, empty, field, number, plural, show, subject } from '../dom.js'
import { saveRows, saving } from '../download.js'
import * as moment from '../moment.js'
import { virtual } from '../virtual.js'

const wide = matchMedia('(min-width: 44.01rem)')
const maxSaved = 20_000

export async function render(main, { query }, signal) {
  const wanted = { q: query.q ?? '', class: query.class ?? '', order: query.order ?? 'name' }
  const ask = async (offset, limit) => {
    const page = await api.get('trees', { ...wanted, order: wanted.class ? wanted.order : 'name', offset, limit, at: moment.sequence() }, signal)
    return { count: page.count, rows: page.trees }
  }
  const fleet = await api.get('fleet', { limit: 1, at: moment.at() }, signal)
  const count = el('span', { class: 'soft', role: 'status' })
  const list = await virtual({
    label: 'Trees of providers', height: wide.matches ? 46 : 104, ask, make: (tree) => row(tree, wanted.class),
    counted: (n, text) => { count.textContent = `${text} trees, ${number(fleet.providers)} providers in all` },
  })
  const nothing = wanted.q || wanted.class
    ? empty('No tree fits.', 'The filter looks at the names of roots; the search at the top looks at all providers.')
    : empty('There are no providers.', 'They are made with POST /resource_providers; nova-compute makes its own.')
  show(main, el('h1', {}, moment.isNow() ? 'Providers' : `Providers at #${moment.sequence()}`), filters(wanted, fleet, ask, count),
    list.firstChild.style.height === '0px' ? nothing : list)
  return {}
}

function filters(wanted, fleet, ask, count) {
  const go = (changed) => { location.hash = withQuery('#/providers', { ...wanted, ...changed }) }
  const name = field('Part of the name', { type: 'search', value: wanted.q })
  const byClass = choice('Class', [['', 'all'], ...fleet.classes.map((c) => c.class)], wanted.class, (value) => go({ class: value, order: value ? wanted.order : 'name' }))
  const order = choice('Order', wanted.class ? [['name', 'by name'], ['fullest', 'fullest first'], ['emptiest', 'emptiest first']] : [['name', 'by name']], wanted.order, (value) => go({ order: value }))
  return el('form', { class: 'form', submit: (event) => { event.preventDefault(); go({ q: name.value() }) } },
    name.node, byClass.node, order.node, el('div', { class: 'field' }, el('button', { type: 'submit', class: 'primary' }, 'Filter')),
    el('div', { class: 'field grow' }, count), el('div', { class: 'field' }, saving((type) => download(ask, type))))
}

function row(tree, name) {
  const inventories = name ? tree.inventories.filter((inv) => inv.class === name) : tree.inventories.slice(0, 3)
  const more = tree.inventories.length - inventories.length
  return el('div', { class: 'provider' },
    el('div', { class: 'name' }, subject('provider', tree.root, tree.name || tree.root), el('span', { class: 'soft small' }, [tree.providers > 1 ? ` ${number(tree.providers)} providers` : '', more > 0 && !name ? ` · ${plural(more, 'more class', 'more classes')}` : ''])),
    el('div', { class: 'bars' }, inventories.map((inv) => bar(inv.class, inv.used, inv.capacity))))
}

// download saves the trees that fit, with a row for each class.
async function download(ask, type) {
  const trees = []
  for (let count = 1; trees.length < Math.min(count, maxSaved);) {
    const page = await ask(trees.length, 1000)
    count = page.count
    if (page.rows.length === 0) break
    trees.push(...page.rows)
  }
  const rows = trees.flatMap((t) => t.inventories.map((inv) => [t.name, t.root, t.providers, inv.class, inv.total, inv.capacity, inv.used]))
  saveRows('providers', type, ['Name', 'Root', 'Providers', 'Class', 'Total', 'Capacity', 'Used'], rows, trees)
}
