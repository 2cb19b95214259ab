// What vouches for the log.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { bytes, card, el, facts, field, form, json, number, show, time } from '../dom.js'
import { save } from '../download.js'
import * as moment from '../moment.js'
import { readCheckpoint } from '../proof.js'

// verdict sums a status up in a word for the badge.
export function verdict(status) {
  if (status.scrub?.found) return { className: 'bad', text: 'Damage on the disk' }
  if (status.scrub?.rounds) return { className: 'good', text: 'No damage found' }
  return { className: '', text: 'Not checked yet' }
}

// scrubbed says what reading everything on the disk again has found.
function scrubbed(scrub) {
  if (!scrub) return el('p', {}, 'This server does not read it again.')
  const share = scrub.total > 0 ? Math.min(100, Math.floor(100 * scrub.bytes / scrub.total)) : 100
  return [
    el('p', { class: `badge ${scrub.found ? 'bad' : scrub.rounds ? 'good' : 'warn'}` },
      scrub.found ? `${number(scrub.found)} times damage` : scrub.rounds ? 'No damage' : 'First look under way'),
    facts([
      ['Round begun', [time(scrub.begun), `: ${share} % of ${bytes(scrub.total)} read`]],
      scrub.rounds ? ['Last round ended', time(scrub.ended)] : null,
    ]),
    scrub.damage.length ? el('ul', {}, scrub.damage.map((line) => el('li', { class: 'error' }, line))) : null,
  ]
}

function room(disk) {
  if (!disk) return null
  return [facts([
    ['Free', bytes(disk.free)], ['Kept free', bytes(disk.reserve)], ['Log and read models', bytes(disk.data)],
    ['Lasts', disk.days_left === undefined ? 'not known: too few commands in the last day' : `${number(Math.floor(disk.days_left))} days, if commands keep coming as in the last day`],
  ]), disk.stores ? facts(disk.stores.map((s) => [s.name, stored(s)])) : null]
}

// stored says how much a store of the ledger holds, how it grows, and how long its disk lasts.
function stored(s) {
  const grows = s.bytes_per_day > 0 ? `, ${bytes(s.bytes_per_day)} more a day` : ''
  if (s.free === undefined) return `${bytes(s.bytes)}${grows}`
  const lasts = s.days_left === undefined ? '' : `, for ${number(Math.floor(s.days_left))} days`
  return `${bytes(s.bytes)}${grows}; ${bytes(s.free)} free on its disk${lasts}`
}

export async function render(main, _, signal) {
  const status = await api.get('status', { at: moment.at() }, signal)
  const checkpoint = status.key ? await api.text('checkpoint', { at: moment.at() }, signal) : null
  show(main, el('h1', {}, moment.isNow() ? 'Verification' : `Verification at #${moment.sequence()}`),
    el('div', { class: 'split' }, card('The log', facts([
      ['Ledger', el('code', {}, status.ledger)], ['Commits', number(status.sequence)], ['Records', number(status.records)],
      ['First commit', time(status.begun)], ['Newest record', time(status.time)],
      ['Digest of the chain', el('code', {}, status.digest)], ['Root of all records', el('code', {}, status.root)], ['Server', status.version],
    ]))),
    card('The disk', room(status.disk), scrubbed(status.scrub)),
    card('Signed checkpoint', checkpoint
      ? [el('p', {}, `Signed by ${readCheckpoint(checkpoint).signers}. Keep it: with the public key, `, el('code', {}, 'allot checkpoint --since FILE'), ' finds out later whether anything was taken back.'), el('pre', { tabindex: 0 }, checkpoint),
        el('button', { type: 'button', click: () => save(`checkpoint-${status.sequence}`, 'text/plain', checkpoint) }, 'Save the checkpoint')]
      : el('p', {}, 'This server signs no checkpoints; allot serve --signing-key FILE makes it do so.')),
    card('Proof of a record', recordForm()), checkpoint ? card('Proof that nothing was taken back', growthForm(status, signal)) : null,
    card('Digests that a replay must give', digestForm(signal)))
  return {}
}

function recordForm() {
  const address = field('Address of the record', { placeholder: '117.0', required: true })
  return form([address], 'Show the proof', () => { location.hash = linkTo('record', address.value().replace(/^#/, '')) }).node
}

function growthForm(status, signal) {
  const from = field('Records of the earlier checkpoint', { inputmode: 'numeric', value: Math.max(1, status.records - 1), required: true })
  return form([from], 'Prove it', async () => {
    const evidence = await api.get('proof/growth', { from: from.value(), at: moment.at() }, signal)
    return [el('p', {}, `${number(evidence.path.length)} hashes lead from ${number(evidence.from)} records to ${number(status.records)}.`),
      el('button', { type: 'button', click: () => save(`growth-${evidence.from}.json`, 'application/json', JSON.stringify(evidence)) }, 'Save the proof'), json(evidence)]
  }).node
}

function digestForm(signal) {
  return form([], 'Compute', async () => {
    const digests = await api.get('digest', { at: moment.at() }, signal)
    return facts(Object.entries(digests).map(([name, value]) => [name.replaceAll('_', ' '), el('code', {}, String(value))]))
  }).node
}
