// The outcome of commands that are carried out on a copy, and not recorded.

import * as api from '../api.js'
import { area, card, choice, el, empty, form, json, show, subject } from '../dom.js'
import * as moment from '../moment.js'

const uuid = '11111111-1111-4111-8111-111111111111'
const examples = {
  'Remove a provider': { steps: [{ command: 'RemoveProvider', body: { provider: uuid } }], questions: [] },
  'Shrink an inventory': { steps: [{ command: 'UpdateInventory', body: { provider: uuid, class: 'VCPU', total: 8, reserved: 0, min_unit: 1, max_unit: 8, step_size: 1, allocation_ratio: 1 } }], questions: [{ query: 'Provider', body: { provider: uuid } }] },
  'Look for candidates afterwards': { steps: [{ command: 'RemoveProvider', body: { provider: uuid } }], questions: [{ query: 'Candidates', body: { groups: [{ resources: { VCPU: 2 } }], limit: 10 } }] },
}

export async function render(main, { query }, signal) {
  const first = query.remove ? { steps: [{ command: 'RemoveProvider', body: { provider: query.remove } }], questions: [{ query: 'Provider', body: { provider: query.remove } }] } : examples['Remove a provider']
  const steps = area('Commands, in the form that they have over NATS', JSON.stringify(first.steps, null, 1))
  const questions = area('Then ask: Allocations, Candidates, Capacity, Provider or Usages', JSON.stringify(first.questions, null, 1))
  const example = choice('Example', Object.keys(examples), '', (name) => {
    steps.input.value = JSON.stringify(examples[name].steps, null, 1)
    questions.input.value = JSON.stringify(examples[name].questions, null, 1)
  })
  const asked = form([example, steps, questions], 'Try it out', async () => outcome(await api.whatIf({
    ...(moment.isNow() ? {} : { at: String(moment.sequence()) }), steps: parsed('commands', steps.value()), questions: parsed('questions', questions.value()),
  }, signal)))
  show(main, el('h1', {}, moment.isNow() ? 'What if?' : `What if, at #${moment.sequence()}?`), el('p', { class: 'soft' }, 'Nothing is recorded: the commands are carried out on a copy.'), card(null, asked.node))
  if (query.remove) asked.run()
  return {}
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
      el('b', {}, step.command), step.rejection ? ` would be rejected: ${step.rejection.message}` : ` would be accepted, with ${(step.events ?? []).length} events`,
      el('details', {}, el('summary', {}, 'details'), step.rejection?.facts?.provider ? el('p', {}, subject('provider', step.rejection.facts.provider)) : null, json(step.rejection ?? step.events))))),
    answer.answers.map((one) => el('div', {}, el('h3', {}, one.query), one.error ? el('p', { class: 'error' }, one.error) : one.result === null ? empty('It would not exist.') : json(one.result))))
}
