// What vouches for the log.

import * as api from './api.js'
import { el, number, show, time } from './dom.js'
import * as moment from './moment.js'

// verdict sums a status up in a word for the badge.
export function verdict(status) {
  if (status.scrub?.found) return { className: 'bad', text: 'Damage on the disk' }
  return audited(status)
}

// audited says what the server's audit of itself found.
function audited(status) {
  if (status.audit?.fault) return { className: 'bad', text: 'Differs from its log' }
  if (status.audit) return { className: 'good', text: 'Audited' }
  if (status.audits) return { className: 'warn', text: 'Audit under way' }
  return { className: '', text: 'Not audited' }
}

// disk says what reading everything on the disk again has found.
function disk(scrub, facts) {
  if (!scrub) return el('p', {}, 'It is not read again in the background; allot serve --scrub-rate 16777216 does so.')
  const share = scrub.total > 0 ? Math.min(100, Math.floor(100 * scrub.bytes / scrub.total)) : 100
  return [
    el('p', { class: `badge ${scrub.found ? 'bad' : scrub.rounds ? 'good' : 'warn'}` },
      scrub.found ? `${number(scrub.found)} times damage` : scrub.rounds ? 'No damage' : 'First look under way'),
    facts([
      ['Round begun', `${time(scrub.begun)}: ${share} % of ${number(scrub.total)} bytes read`],
      scrub.rounds ? ['Last round ended', time(scrub.ended)] : null,
    ]),
    scrub.damage.length ? el('ul', {}, scrub.damage.map((line) => el('li', { class: 'error' }, line))) : null,
  ].filter(Boolean)
}

export async function render(main, _, signal) {
  const status = await api.get('status', { at: moment.at() }, signal)
  const checkpoint = status.key ? await api.text('checkpoint', { at: moment.at() }) : null
  const { className, text } = audited(status)
  const facts = (list) => el('dl', { class: 'facts' }, list.filter(Boolean).map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]).flat())
  show(main, el('h1', {}, moment.isNow() ? 'Verification' : `Verification at #${moment.sequence()}`),
    el('section', { class: 'card' }, el('h2', {}, 'The log'), facts([
      ['Ledger', status.ledger], ['Commits', number(status.sequence)], ['Records', number(status.records)],
      ['First commit', time(status.begun)], ['Newest record', time(status.time)],
      ['Digest of the chain', el('code', {}, status.digest)], ['Root of all records', el('code', {}, status.root)], ['Server', status.version],
    ])),
    el('section', { class: 'card' }, el('h2', {}, 'The server’s audit of itself'), el('p', { class: `badge ${className}` }, text),
      status.audit ? facts([
        ['Compared up to', `#${number(status.audit.sequence)}, ${number(moment.newestSequence() - status.audit.sequence)} commits ago`],
        ['Replayed', `${number(status.audit.records)} records after #${number(status.audit.from)}`],
        ['Begun', time(status.audit.begun)], ['Took', `${(status.audit.took_ns / 1e9).toFixed(2)} s`],
        status.audit.fault ? ['Fault', el('span', { class: 'error' }, status.audit.fault)] : null,
      ]) : el('p', {}, status.audits ? 'The first one has not ended yet.' : 'It is off; allot serve --audit-every 24h turns it on.')),
    el('section', { class: 'card' }, el('h2', {}, 'The disk'), disk(status.scrub, facts)),
    el('section', { class: 'card' }, el('h2', {}, 'Signed checkpoint'), checkpoint
      ? [el('p', {}, `Signed by ${status.key}. Keep it: with the public key, `, el('code', {}, 'allot checkpoint --since FILE'), ' finds out later whether anything was taken back.'), el('pre', {}, checkpoint)]
      : el('p', {}, 'This server signs no checkpoints; allot serve --signing-key FILE makes it do so.')))
  return {}
}
