// Parts that the pages of several things have.

import * as api from '../api.js'
import { usage } from '../chart.js'
import { amounts, card, el, empty, failure, number, show, subject, time } from '../dom.js'
import { history } from '../entries.js'
import * as moment from '../moment.js'
import { aligned, picker, span } from '../range.js'
import { table } from '../table.js'
import { summed } from '../words.js'

// happened is the history of something in words.
export async function happened(query, signal) {
  const { node } = await history('What happened, newest first', (before) => api.get('timeline', { ...query, before, limit: 20, at: moment.at() }, signal), empty('Nothing has happened to it.'))
  return card(moment.isNow() ? 'What happened' : `What had happened by #${moment.sequence()}`, node)
}

// overTime is a chart of usage up to the moment, in the span that is picked.
export async function overTime(query, file, signal, title = 'Usage over time', most = 120) {
  const [{ begun }, { time: until }] = await Promise.all([api.get('status', {}, signal), moment.isNow() ? {} : api.get('status', { at: moment.sequence() }, signal)])
  const place = el('div', { 'aria-live': 'polite' })
  const draw = async () => show(place, usage(await aligned(span('', until, begun), most, async (since, to, steps, isRest) => {
    const { points } = await api.get('series', { ...query, since, until: to, points: steps + 1 }, signal)
    return isRest ? points.slice(-1) : points
  }), file))
  await draw()
  return card(title, picker('', () => draw().catch((error) => show(place, failure(error)))), place)
}

// holderColumns are those of consumers with what they hold.
export const holderColumns = [
  { title: 'Consumer', value: (c) => c.consumer, show: (c) => subject('consumer', c.consumer) },
  { title: 'Project', value: (c) => c.project, show: (c) => subject('project', c.project) },
  { title: 'User', value: (c) => c.user, show: (c) => subject('user', c.user) },
  { title: 'Type', value: (c) => c.type ?? '' },
  { title: 'Holds', value: (c) => amounts(summed(c)) },
  { title: 'Providers', value: (c) => providersOf(c).join(' '), show: (c) => providersOf(c).slice(0, 3).map((id) => el('div', {}, subject('provider', id))) },
  { title: 'Since', value: (c) => c.since, show: (c) => time(c.since) },
  { title: 'Reserved until', value: (c) => c.reserved_until ?? '', show: (c) => (c.reserved_until ? time(c.reserved_until) : '') },
]

const providersOf = (c) => [...new Set(c.allocations.map((a) => a.provider))]

// consumerTable lists the consumers that a question is answered with, page by page.
export async function consumerTable(label, file, question, query, nothing, signal) {
  const page = async (after) => {
    const answer = await api.get(question, { ...query, after, limit: 500, at: moment.at() }, signal)
    return { rows: answer[question], more: answer.next ? () => page(answer.next) : null }
  }
  return table({ label, file, ...await page(''), nothing, columns: holderColumns })
}

// holders lists who holds something of a provider, of all that is nested in it, or of a node.
export const holders = (id, nothing, signal) => consumerTable('Holders', `holders-${id}`, 'holders', { provider: id, tree: true }, nothing, signal)

// consumersOf lists the consumers of a project or user.
export const consumersOf = (query, file, nothing, signal) => consumerTable('Consumers', file, 'consumers', query, nothing, signal)

// later fills a place on the page when its content has come, and shows what is
// wrong if it does not.
export function later(title, ask) {
  const place = el('div', {}, card(title, el('p', { class: 'soft' }, '…')))
  place.ready = ask().then((node) => show(place, node)).catch((error) => {
    if (error.name !== 'AbortError') show(place, card(title, failure(error)))
  })
  return place
}

// fits says how many more fit.
export const fits = (c) => (c.exact ? `${number(c.capacity)} more fit` : `At least ${number(c.at_least)} more fit, at most ${number(c.at_most)}`)

// gone says that something is not there at the moment.
export function gone(what) {
  return card(null, empty(moment.isNow() ? `${what} does not exist any more.` : `${what} does not exist at this moment.`, 'What happened to it is below; the slider at the top goes to a moment when it existed.'))
}
