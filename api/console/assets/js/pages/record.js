// One record, and the proof that it is in the log.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { difference } from '../difference.js'
import { save } from '../download.js'
import { card, el, empty, facts, kindName, number, show, subject, time } from '../dom.js'
import { eventList } from '../entries.js'
import * as moment from '../moment.js'
import { checkInclusion, readCheckpoint } from '../proof.js'
import { sentence } from '../words.js'

export async function render(main, { rest: [address = ''] }, signal) {
  const [sequence, index] = address.split('.').map(Number)
  if (!Number.isInteger(sequence) || !Number.isInteger(index)) {
    show(main, el('h1', {}, 'Record'), empty(`${address} is no address of a record.`, 'An address is SEQUENCE.INDEX, such as 117.0.'))
    return {}
  }
  const page = await api.get('timeline', { before: `${sequence}.${index + 1}`, limit: 1, at: sequence }, signal)
  const item = page.entries.find((one) => one.address === address)
  if (!item) {
    show(main, el('h1', {}, `Record #${address}`), empty('There is no such record.', 'Look at the ', el('a', { href: linkTo('timeline') }, 'timeline'), '.'))
    return {}
  }
  const proof = el('div')
  show(main, el('h1', {}, `Record #${address}`), el('div', { class: 'card lead' }, sentence(item)),
    card(null, facts([
      ['Time', time(item.time)], ['Actor', item.actor], ['Command', item.command], ['Command id', subject('command', item.command_id)],
      item.request_id ? ['Request', item.request_id] : null,
      item.cause ? ['Caused by', el('a', { href: linkTo('record', `${item.cause.sequence}.${item.cause.index}`) }, `#${item.cause.sequence}.${item.cause.index}`)] : null,
      ['Neighbours', [index > 0 || sequence > 1 ? el('a', { href: linkTo('record', index > 0 ? `${sequence}.${index - 1}` : `${sequence - 1}.0`) }, 'earlier') : null, ' · ',
        sequence < moment.newestSequence() ? el('a', { href: linkTo('record', `${sequence + 1}.0`) }, 'next commit') : 'newest commit']],
    ])),
    card(`Changed: ${number(item.change_count)}`, item.changes.length === 0 ? el('p', { class: 'soft' }, 'The record is about no single thing.') : item.changes.map((change) => el('div', {},
      el('h3', {}, `${kindName(change.of)} `, subject(change.of, change.name)), difference(change.before, change.after)))),
    proof,
    card(`Events: ${number(item.event_count)}`, eventList(item)))
  show(proof, await proofCard(address, signal))
  return {}
}

// proofCard asks for the evidence, and checks it in the browser.
async function proofCard(address, signal) {
  let evidence
  try {
    evidence = await api.get('proof/record', { record: address }, signal)
  } catch (error) {
    if (error.name === 'AbortError') throw error
    return card('Proof', el('p', { class: 'soft' }, error.message))
  }
  const { signers, size, root } = readCheckpoint(evidence.checkpoint)
  const verdict = await checkInclusion(evidence, size, root)
  return card('Proof', el('p', { class: `badge ${verdict.good === null ? '' : verdict.good ? 'good' : 'bad'}` }, verdict.text),
    facts([['Record', `number ${number(evidence.number)} of ${number(size)}`], ['Path', `${number(evidence.path.length)} hashes`], ['Root', el('code', {}, root)], ['Signed by', signers]]),
    el('p', { class: 'soft' }, 'The browser has computed the root from the record and the path. Only the operator’s public key tells whether the checkpoint is signed: ', el('code', {}, 'allot check-proof FILE --public-key KEY')),
    el('button', { type: 'button', click: () => save(`proof-${address}.json`, 'application/json', JSON.stringify(evidence)) }, 'Save the proof'))
}
