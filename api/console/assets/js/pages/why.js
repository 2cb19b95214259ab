// Why a consumer holds something of a provider.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { amounts, card, el, empty, failure, field, number, show, subject, time } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { resolve } from './held.js'

export async function render(main, { rest: [consumer = '', provider = ''] }, signal) {
  const { names } = provider ? await api.get('names', { ids: provider }, signal) : { names: {} }
  const [one, other] = [field('Consumer', { value: consumer, placeholder: 'uuid' }), field('Provider', { value: names[provider] ?? provider, placeholder: 'name or uuid' })]
  const result = el('div', { 'aria-live': 'polite' })
  show(main, el('h1', {}, 'Why does it hold that?'), el('form', { class: 'form card', submit: async (event) => {
      event.preventDefault()
      try { location.hash = linkTo('why', one.value(), await resolve('provider', other.value())) } catch (error) { show(result, failure(error)) }
    } },
    one.node, other.node, el('div', { class: 'field' }, el('button', { type: 'submit', class: 'primary' }, 'Ask'))), result)
  if (!consumer || !provider) {
    show(result, empty('Name a consumer and a provider.', 'The page of a consumer has a link “Why?” for each of its allocations.'))
    return {}
  }
  const why = await api.get('why', { consumer, provider, at: moment.at() }, signal)
  const address = { title: 'Record', value: (c) => c.address, show: (c) => el('a', { href: linkTo('record', c.address) }, `#${c.address}`) }
  const common = [address, { title: 'Time', value: (c) => c.time, show: (c) => time(c.time) }, { title: 'Actor', value: (c) => c.actor }, { title: 'Command', value: (c) => c.command }]
  show(result, el('p', { class: 'card lead' }, 'Consumer ', subject('consumer', consumer), Object.keys(why.holds).length ? ` holds ${amounts(why.holds)} of ` : ' holds nothing of ', subject('provider', provider), '.'),
    card('What it held, newest first', table({
      label: 'Changes of what it holds', file: 'why', rows: why.changes, nothing: empty('Nothing has changed.'),
      columns: [...common, { title: 'Before', value: (c) => amounts(c.before) || 'nothing' }, { title: 'After', value: (c) => amounts(c.after) || 'nothing' }],
    })),
    card('What shaped the inventories', table({
      label: 'Changes of the inventories', file: 'why-inventories', rows: why.inventories, nothing: empty('The inventories of these classes have not changed.'),
      columns: [...common, { title: 'Class', value: (c) => c.class }, { title: 'Before', value: (c) => inventory(c.before) }, { title: 'After', value: (c) => inventory(c.after) }],
    })),
    why.incomplete ? el('p', { class: 'error' }, 'There is more than one answer holds.') : null)
  return {}
}

const inventory = (inv) => (inv ? `${number(inv.total)}, ${number(inv.reserved)} reserved, ratio ${inv.allocation_ratio}` : 'none')
