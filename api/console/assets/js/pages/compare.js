// Two moments, side by side.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { difference } from '../difference.js'
import { asking, card, el, empty, field, folded, number, show, subject } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { sentence } from '../words.js'

export async function render(main, { rest: [from, to] }, signal) {
  const newest = moment.sequence()
  const one = field('From', { value: from ?? Math.max(1, newest - 100) })
  const other = field('To', { value: to ?? newest })
  const result = el('div', { 'aria-live': 'polite' })
  show(main, el('h1', {}, 'Compare two moments'), asking([one, other], 'Compare', (first, last) => linkTo('compare', first, last)),
    el('p', { class: 'soft' }, 'A moment is a sequence, or a time such as 2026-11-20T10:00:00Z.'), result)
  const diff = await api.get('diff', { from: one.value(), to: other.value() }, signal)
  const nothing = empty('Nothing differs.', 'Choose moments that are further apart.')
  show(result,
    card(`Consumers: ${counted(diff.consumer_count, diff)} differ between #${diff.from} and #${diff.to}`, table({
      label: 'Consumers that differ', file: `diff-consumers-${diff.from}-${diff.to}`, rows: diff.consumers, nothing,
      columns: [
        { title: 'Consumer', value: (c) => (c.after ?? c.before).consumer, show: (c) => subject('consumer', (c.after ?? c.before).consumer) },
        { title: 'In words', long: true, value: (c) => c.text, show: sentence },
        { title: 'Details', value: (c) => ({ before: c.before, after: c.after }), show: details },
      ],
    })),
    card(`Providers: ${counted(diff.provider_count, diff)} differ`, table({
      label: 'Providers that differ', file: `diff-providers-${diff.from}-${diff.to}`, rows: diff.providers, nothing,
      columns: [
        { title: 'Provider', value: (p) => (p.after ?? p.before).provider, show: (p) => subject('provider', (p.after ?? p.before).provider, (p.after ?? p.before).name) },
        { title: 'Name', value: (p) => (p.after ?? p.before).name },
        { title: 'Change', value: (p) => (p.before === null ? 'is new' : p.after === null ? 'is gone' : 'has changed') },
        { title: 'Used', value: used },
        { title: 'Details', value: (p) => ({ before: p.before, after: p.after }), show: details },
      ],
    })),
    diff.incomplete ? el('p', { class: 'error' }, 'The first 1000 of each that differ are shown.') : null)
  return {}
}

const counted = (n, diff) => `${diff.at_least ? 'at least ' : ''}${number(n)}`

// used is how the usage of a provider has changed.
function used({ before, after }) {
  const of = (state) => Object.fromEntries((state?.inventories ?? []).map((inv) => [inv.class, inv.used]))
  const [was, is] = [of(before), of(after)]
  return [...new Set([...Object.keys(was), ...Object.keys(is)])].sort().filter((name) => was[name] !== is[name])
    .map((name) => `${name} ${number(was[name] ?? 0)} → ${number(is[name] ?? 0)}`).join(', ')
}

const details = ({ before, after }) => folded('show', () => difference(before, after))
