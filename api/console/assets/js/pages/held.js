// Who held something at a moment, which is chosen by time or by sequence.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { card, choice, el, empty, field, kindName, show, subject, time } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { consumersOf, holderColumns, holders } from './parts.js'

const kinds = [['provider', 'provider'], ['node', 'node'], ['consumer', 'consumer'], ['project', 'project'], ['user', 'user']]

export async function render(main, { rest: [of = 'provider', id = ''] }, signal) {
  const [status, { names }] = await Promise.all([api.get('status', { at: moment.at() }, signal), id ? api.get('names', { ids: id }, signal) : { names: {} }])
  const result = el('div', { 'aria-live': 'polite' })
  show(main, el('h1', {}, 'Who held what, and when'), ask(of, names[id] ?? id, status), result)
  if (!id) {
    show(result, empty('Name something, and choose a moment.', 'The slider at the top moves by commit, the time beside it and the one here to any second.'))
    return {}
  }
  const at = [moment.isNow() ? 'now, ' : 'at ', time(status.time), ` (#${status.sequence})`]
  try {
    show(result, card(null, el('h2', {}, sentenceStart(of), subject(of, id), ' ', at), await answer(of, id, signal)))
  } catch (error) {
    if (error.name === 'AbortError' || error.status !== 404) throw error
    show(result, empty('It did not exist at this moment.', error.message))
  }
  return {}
}

const sentenceStart = (of) => (of === 'provider' || of === 'node' ? 'Who held something of ' : `What was held by ${kindName(of)} `)

async function answer(of, id, signal) {
  const none = empty('Nothing was held.', 'Choose another moment.')
  if (of === 'provider' || of === 'node') return holders(id, none, signal)
  if (of !== 'consumer') return consumersOf({ [of]: id }, `${of}-held`, none, signal)
  const { entries } = await api.get('history', { consumer: id, limit: 1, at: moment.at() }, signal)
  return table({ label: 'What it held', file: `consumer-${id}`, rows: entries[0]?.after ? [entries[0].after] : [], nothing: none, columns: holderColumns })
}

// ask is the form: what, and when in any form that the API takes.
function ask(of, id, status) {
  const what = choice('What', kinds, of)
  const name = field('Name or uuid', { value: id })
  const when = field('When', { value: moment.isNow() ? '' : status.time, placeholder: 'now; or 117, or 2026-11-20T10:00:00Z' })
  const problem = el('p', { class: 'error', role: 'alert' })
  return el('form', {
    class: 'form card', input: () => { problem.textContent = '' }, submit: async (event) => {
      event.preventDefault()
      problem.textContent = ''
      try {
        if (!name.value()) throw new Error('Give a name or uuid.')
        const found = await resolve(what.value(), name.value())
        const before = moment.at()
        if (!when.value()) moment.set(null)
        else if (!await moment.take(when.value())) return
        const target = linkTo('held', what.value(), found)
        if (location.hash.split('?')[0] === target && before !== moment.at()) moment.tell()
        else location.hash = target
      } catch (error) {
        problem.textContent = error.message
      }
    },
  }, what.node, name.node, when.node, el('div', { class: 'field' }, el('button', { type: 'submit', class: 'primary' }, 'Show')), problem)
}

// resolve turns a name, or the beginning of a uuid, into a uuid or id: it is looked
// for in the present and in the past that is shown.
export async function resolve(of, text) {
  if (!text || /^[0-9a-f-]{32,36}$/i.test(text)) return text
  for (const at of new Set([moment.at(), ''])) {
    const { found } = await api.get('find', { q: text, at })
    const one = found.find((f) => f.of === of)
    if (one) return one.name
  }
  if (of === 'project' || of === 'user') return text
  throw new Error(`No ${of} is called ${text}. Its uuid finds it even if it is gone.`)
}
