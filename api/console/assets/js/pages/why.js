// Why a consumer holds something of a provider.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { asking, card, el, empty, field, show } from '../dom.js'
import { entries } from '../entries.js'
import * as moment from '../moment.js'
import { sentence } from '../words.js'
import { resolve } from './held.js'

export async function render(main, { rest: [consumer = '', provider = ''] }, signal) {
  const { names } = provider ? await api.get('names', { ids: provider }, signal) : { names: {} }
  const fields = [field('Consumer', { value: consumer, placeholder: 'uuid' }), field('Provider', { value: names[provider] ?? provider, placeholder: 'name or uuid' })]
  const result = el('div', { 'aria-live': 'polite' })
  show(main, el('h1', {}, 'Why does it hold that?'), asking(fields, 'Ask', async (one, other) => linkTo('why', one, await resolve('provider', other))), result)
  if (!consumer || !provider) {
    show(result, empty('Name a consumer and a provider.', 'The page of a consumer has a link “Why?” for each of its allocations.'))
    return {}
  }
  const why = await api.get('why', { consumer, provider, at: moment.at() }, signal)
  const told = (label, list, nothing) => card(label, list.length ? entries(label, list) : empty(nothing))
  show(result, el('div', { class: 'card lead' }, sentence(why)),
    told('What it held, newest first', why.changes, 'Nothing has changed.'),
    told('What shaped the inventories', why.inventories.filter((one, i, all) => i === 0 || one.address !== all[i - 1].address), 'The inventories of these classes have not changed.'),
    why.incomplete ? el('p', { class: 'error' }, 'There is more than one answer holds.') : null)
  return {}
}
