// The outcome of commands that are carried out on a copy, and not recorded.

import * as api from '../api.js'
import { data } from '../difference.js'
import { area, card, choice, el, empty, field, form, named, show } from '../dom.js'
import * as moment from '../moment.js'
import { spaced } from '../words.js'
import { resolve } from './held.js'
import { fits } from './parts.js'

// group is what candidates are asked for: VCPU:2,MEMORY_MB:2048 with traits.
const group = ({ resources, traits }) => ({ groups: [{
  resources: Object.fromEntries(resources.split(',').map((one) => one.split(':')).map(([name, amount]) => [name.trim(), Number(amount)])), required: traits ? traits.split(',').map((name) => [name.trim()]) : [],
}] })

const inventory = ({ provider, class: name, total, reserved, ratio }) => ({ provider, inventory: { class: name, total: Number(total), reserved: Number(reserved), allocation_ratio: Number(ratio || 1) } })

// steps and questions are commands and queries by what they are for: their names
// over NATS, their fields, and the body that these make, unless they are its own.
const steps = {
  'Remove a host': ['RemoveProvider', ['provider']], 'Change an inventory': ['UpdateInventory', ['provider', 'class', 'total', 'reserved', 'ratio'], inventory],
  'Add an inventory': ['CreateInventory', ['provider', 'class', 'total', 'reserved', 'ratio'], inventory], 'Delete an inventory': ['DeleteInventory', ['provider', 'class']],
  'Release a consumer': ['ReleaseConsumer', ['consumer']], 'Delete an empty provider': ['DeleteProvider', ['provider']],
}
const questions = {
  'Which candidates are there?': ['Candidates', ['resources', 'traits'], (given) => ({ ...group(given), limit: 10 })], 'How many more fit?': ['Capacity', ['resources', 'traits'], group],
  'What does a project hold?': ['Usages', ['project']], 'What is left of a provider?': ['Provider', ['provider']], 'What does a consumer hold?': ['Allocations', ['consumer']],
}
const hints = { provider: 'name or uuid', consumer: 'uuid', resources: 'VCPU:2,MEMORY_MB:2048', class: 'VCPU', ratio: '1', traits: 'none' }

export async function render(main, { query }, signal) {
  const given = query.remove ? [{ provider: query.remove }] : []
  const [commands, queries] = [area('Commands, in the form that they have over NATS', JSON.stringify(given.map((body) => ({ command: 'RemoveProvider', body })), null, 1)),
    area('Queries: Allocations, Candidates, Capacity, Provider or Usages', JSON.stringify(given.map((body) => ({ query: 'Provider', body })), null, 1))]
  const asked = form([{ node: el('details', { class: 'wide' }, el('summary', {}, 'As JSON'), commands.node, queries.node) }], 'Try it out', async () => outcome(await api.whatIf({
    ...(moment.isNow() ? {} : { at: String(moment.sequence()) }), steps: parsed('commands', commands.value()), questions: parsed('questions', queries.value()),
  }, signal)))
  show(main, el('h1', {}, moment.isNow() ? 'What if?' : `What if, at #${moment.sequence()}?`), el('p', { class: 'soft' }, 'Nothing is recorded: the commands are carried out on a copy.'),
    el('div', { class: 'split even' }, builder('What would be done', 'Step', 'command', steps, commands), builder('What would be asked then', 'Question', 'query', questions, queries)), card(null, asked.node))
  if (query.remove) asked.run()
  return {}
}

// builder adds to the list that a text of JSON holds, by form, and takes away from it.
function builder(title, label, key, table, text) {
  const [list, place] = [el('ol'), el('div', { class: 'form' })]
  const lookAgain = (change = (all) => all) => {
    let all
    try { all = change(JSON.parse(text.value() || '[]')) } catch { return } // sending it tells
    text.input.value = JSON.stringify(all, null, 1)
    show(list, all.map((one, i) => el('li', {}, el('b', {}, spaced(one[key] ?? '?')), ' ', named(Object.values(one.body ?? {}).map((v) => (typeof v === 'object' ? JSON.stringify(v) : v)).join(' ')), ' ',
      el('button', { type: 'button', class: 'quiet', 'aria-label': `Take ${one[key]} away`, click: () => lookAgain((now) => now.toSpliced(i, 1)) }, '×'))))
  }
  let fields = []
  const change = (name) => { fields = table[name][1].map((one) => [one, field(one, { placeholder: hints[one] ?? '' })]); show(place, fields.map(([, one]) => one.node)) }
  const kind = choice(label, Object.keys(table), '', change)
  const adding = form([kind, { node: place }], `Add the ${label.toLowerCase()}`, async () => {
    const [name, , make = (own) => own] = table[kind.value()]
    const given = Object.fromEntries(fields.map(([one, of]) => [one, of.value()]))
    for (const of of ['provider', 'consumer']) if (of in given) given[of] = await resolve(of, given[of])
    lookAgain((all) => [...all, { [key]: name, body: make(given) }])
  })
  change(kind.value())
  text.input.addEventListener('input', () => lookAgain())
  lookAgain()
  return card(title, list, adding.node)
}

function parsed(what, text) {
  try {
    return JSON.parse(text || '[]')
  } catch (error) {
    throw new Error(`The ${what} are not JSON: ${error.message}`)
  }
}

function outcome(answer) {
  return el('div', {}, el('h3', {}, `After #${answer.sequence}`),
    answer.steps.length === 0 ? empty('No command was given.') : el('ol', { class: 'outcomes' }, answer.steps.map((step) => el('li', { class: step.rejection ? 'bad' : 'good' },
      el('b', {}, spaced(step.command)), step.rejection ? [' would be rejected: ', named(step.rejection.message)] : ` would be accepted, with ${(step.events ?? []).length} events`,
      el('details', {}, el('summary', {}, 'details'), data(step.rejection?.facts ?? step.events))))),
    answer.answers.map((one) => el('div', {}, el('h3', {}, one.query), one.error ? el('p', { class: 'error' }, named(one.error)) : one.result === null ? empty('It would not exist.')
      : [one.query === 'Capacity' ? el('p', { class: 'lead' }, fits(one.result)) : null, data(one.result)])))
}
