// Spans of time, as long as the reader wants them, in whole minutes, hours or days.

import { parse, withQuery } from './address.js'
import * as api from './api.js'
import { choice, el, field, localTime } from './dom.js'

const minute = 60_000
const [hour, day] = [60 * minute, 24 * 60 * minute]
const names = [['', 'everything'], ['hour', 'last hour'], ['day', 'last day'], ['week', 'last week'], ['month', 'last month'], ['span', 'from – to']]
const lengths = { hour, day, week: 7 * day, month: 30 * day }
const steps = [1000, 5000, 15_000, minute, 5 * minute, 15 * minute, hour, 3 * hour, 6 * hour, day, 7 * day, 28 * day]

// picker chooses the span of the charts of a page, which stays in its address.
export function picker(missing, changed) {
  const { query } = parse()
  const [since, until] = ['since', 'until'].map((name) => field(name === 'since' ? 'From' : 'to', { type: 'datetime-local', step: 1, value: localTime(query[name]) }))
  const set = (range) => {
    const given = range === 'span' ? Object.fromEntries([['since', since], ['until', until]].filter(([, one]) => one.value()).map(([name, one]) => [name, new Date(one.value()).toISOString()])) : {}
    history.replaceState(null, '', withQuery(location.hash.split('?')[0], { ...parse().query, since: '', until: '', range, ...given }))
    for (const one of document.querySelectorAll('.range')) one.follow(range)
  }
  const ends = el('span', { class: 'row', hidden: query.range !== 'span' }, since.node, until.node, el('button', { type: 'button', click: () => set('span') }, 'Show'))
  const chosen = choice('Range', names.filter(([name]) => name || !missing), query.range || missing, set)
  const node = el('div', { class: 'row range' }, chosen.node, ends)
  node.follow = (range) => {
    chosen.input.value = range || missing
    ends.hidden = range !== 'span'
    changed()
  }
  return node
}

// span is what was picked, up to the moment that is shown; begun is where everything begins.
export function span(missing, moment, begun) {
  const { range = missing, since, until } = parse().query
  const [now, first] = [moment ? Date.parse(moment) : api.now(), Date.parse(begun)]
  if (range === 'span') return { since: since ? Date.parse(since) : first, until: Math.min(now, until ? Date.parse(until) : now) }
  return { since: lengths[range] ? now - lengths[range] : first, until: now }
}

// stepOf is how far the points of a span are from each other.
export const stepOf = ({ since, until }, points) => steps.find((step) => (until - since) / step <= points) ?? steps.at(-1)

// aligned asks for a span in steps that begin where minutes, hours or days do, and
// for what has passed of the last one. Ask answers a list for two times, a
// number of steps, and whether they are what has passed of the last one.
export async function aligned(given, points, ask) {
  const step = stepOf(given, points)
  const zone = new Date(given.until).getTimezoneOffset() * minute
  const floor = (at) => Math.floor((at - zone) / step) * step + zone
  const [first, last] = [floor(given.since), floor(given.until)]
  const iso = (at) => new Date(at).toISOString()
  return (await Promise.all([last > first ? ask(iso(first), iso(last), Math.round((last - first) / step), false) : [], last < given.until ? ask(iso(last), iso(given.until), 1, true) : []])).flat()
}

// word is the length of a step.
export function word(step) {
  const [unit, length] = [['day', day], ['hour', hour], ['minute', minute], ['second', 1000]].find(([, one]) => step % one === 0)
  return step === length ? unit : `${step / length} ${unit}s`
}
