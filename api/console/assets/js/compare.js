// Two moments, side by side.

import * as api from './api.js'
import { difference } from './difference.js'
import { el, number, show, subject } from './dom.js'
import * as moment from './moment.js'

export async function render(main, [from, to], signal) {
  const newest = moment.sequence()
  const one = field('from', from ?? Math.max(1, newest - 100))
  const other = field('to', to ?? newest)
  const result = el('div', { 'aria-live': 'polite' })
  const go = el('form', {
    class: 'row', submit: (event) => {
      event.preventDefault()
      location.hash = `#/compare/${encodeURIComponent(one.input.value.trim())}/${encodeURIComponent(other.input.value.trim())}`
    },
  }, el('div', { class: 'grow' }, one.label, one.input), el('div', { class: 'grow' }, other.label, other.input), el('button', { class: 'primary', type: 'submit' }, 'Compare'))
  show(main, el('h1', {}, 'Compare two moments'), el('p', { class: 'soft' }, 'A moment is a sequence, or a time such as 2026-11-20T10:00:00Z.'), go, result)
  const diff = await api.get('diff', { from: one.input.value, to: other.input.value }, signal)
  show(result,
    el('h2', {}, `Providers: ${number(diff.providers.length)} differ between #${diff.from} and #${diff.to}`),
    diff.providers.map((p) => card('provider', (p.before ?? p.after).provider, (p.after ?? p.before).name, p)),
    el('h2', {}, `Consumers: ${number(diff.consumers.length)} differ`),
    diff.consumers.map((c) => card('consumer', (c.before ?? c.after).consumer, (c.before ?? c.after).consumer, c)),
    diff.incomplete ? el('p', { class: 'error' }, 'There is more that differs than is shown.') : null)
  return {}
}

function field(name, value) {
  const id = `compare-${name}`
  return { label: el('label', { for: id }, name === 'from' ? 'From' : 'To'), input: el('input', { id, type: 'text', value, autocomplete: 'off' }) }
}

function card(of, id, name, { before, after }) {
  const what = before === null ? 'is new' : after === null ? 'is gone' : 'has changed'
  const title = el('summary', {}, subject(of, id, name), ` ${what}`)
  const node = el('details', { class: 'card', toggle: () => { if (node.open && node.childElementCount === 1) node.append(difference(before, after)) } }, title)
  return node
}
