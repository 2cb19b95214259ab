// One consumer, provider, project, user, node, node allocation, chassis or command.

import * as api from './api.js'
import { usage } from './chart.js'
import { difference } from './difference.js'
import { bar, el, json, number, show, subject, time } from './dom.js'
import * as moment from './moment.js'

export async function render(main, [of, name], signal) {
  const title = el('h1', {}, `${of.replace('_', ' ')} ${name}`)
  const state = el('div')
  const chart = el('div')
  const list = el('ol', { class: 'records', 'aria-label': 'What happened, newest first' })
  const more = el('button', { type: 'button', hidden: true, click: () => older() }, 'Earlier')
  show(main, title, state, chart, el('h2', {}, moment.isNow() ? 'What happened' : `What had happened by #${moment.sequence()}`), list, more)
  let before = ''
  let first = true
  async function older() {
    const page = await api.get('history', { [of]: name, at: moment.at(), before, limit: 25 }, signal)
    if (first) show(state, described(of, page.entries[0], title, name))
    first = false
    list.append(...page.entries.map((e) => entry(of, e)))
    before = page.next ?? ''
    more.hidden = !before
    if (list.childElementCount === 0) show(list, el('li', {}, 'Nothing.'))
  }
  await older()
  if (of === 'provider' || of === 'project') {
    const until = moment.isNow() ? '' : await timeOf(moment.sequence())
    const series = await api.get('series', { [of]: name, until, points: 160 }, signal)
    show(chart, el('h2', {}, 'Usage over time'), el('div', { class: 'card' }, usage(series.points)))
  }
  return {}
}

const timeOf = async (sequence) => (await api.get('status', { at: sequence })).time

// described is a thing as it was after its last record.
function described(of, last, title, name) {
  if (!last || of === 'command' || of === 'user') return null
  if (last.after === null) return el('p', { class: 'card' }, 'It does not exist', moment.isNow() ? ' any more.' : ' at this moment.')
  if (of === 'provider') {
    title.textContent = `provider ${last.after.name}`
    return el('div', { class: 'card' },
      facts({ uuid: name, generation: last.after.generation, traits: last.after.traits.join(', ') || 'none', aggregates: last.after.aggregates.join(', ') || 'none' },
        last.after.parent ? { parent: subject('provider', last.after.parent) } : {}),
      el('h2', {}, 'Inventories'), el('div', { class: 'bars' }, last.after.inventories.map((inv) => bar(inv.class, inv.used, inv.capacity))))
  }
  if (of === 'consumer') {
    return el('div', { class: 'card' },
      facts({ type: last.after.type || 'unknown', generation: last.after.generation }, {
        project: subject('project', last.after.project), user: subject('user', last.after.user), since: time(last.after.since),
        ...(last.after.reserved_until ? { 'reserved until': time(last.after.reserved_until) } : {}),
      }),
      el('h2', {}, 'Holds'), el('div', { class: 'scroll' }, el('table', {},
        el('thead', {}, el('tr', {}, ['Class', 'Amount', 'Provider'].map((h) => el('th', { scope: 'col', class: h === 'Amount' ? 'number' : null }, h)))),
        el('tbody', {}, last.after.allocations.map((a) => el('tr', {}, el('td', {}, a.class), el('td', { class: 'number' }, number(a.amount)), el('td', {}, subject('provider', a.provider))))))))
  }
  return el('div', { class: 'card' }, json(last.after))
}

function facts(plain, nodes = {}) {
  return el('dl', { class: 'facts' }, Object.entries({ ...plain, ...nodes }).map(([key, value]) =>
    [el('dt', {}, key), el('dd', {}, value instanceof Node ? value : String(value))]).flat())
}

function entry(of, e) {
  return el('li', {},
    el('div', { class: 'line' }, el('span', { class: 'mono' }, e.address), time(e.time), el('span', { title: 'actor' }, e.actor), el('span', { class: 'what' }, e.command)),
    of === 'user' ? null : difference(e.before, e.after),
    el('p', { class: 'soft' }, 'command ', subject('command', e.command_id), e.request_id ? ` · request ${e.request_id}` : null))
}
