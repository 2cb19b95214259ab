// The page of the proxy: who leads, what is to do, and which answers
// differ. It is made of the console's parts.

import { age, bytes, card, el, empty, facts, number, plural, show, time } from '/console/js/dom.js'
import * as theme from '/console/js/theme.js'

const every = 2000 // milliseconds between two questions
const main = document.getElementById('main')
const names = { placement: 'Placement', allot: 'Allot' }
const parts = {} // those that are shown, with what they were made of

theme.start(document.getElementById('theme'), () => {})

// part makes a part of the page again only if what it shows is new, so that what a reader
// has opened stays open.
function part(name, shown, make) {
  const text = JSON.stringify(shown)
  if (parts[name]?.text !== text) parts[name] = { text, node: make() }
  return parts[name].node
}

// problem says in a few words what is wrong; null: nothing is.
function problem(status) {
  const [side] = Object.keys(status.unreachable)
  if (side) return `${names[side]} does not answer`
  if (status.unrepaired_count) return `${plural(status.unrepaired_count, 'thing')} not in line`
  if (status.compare_error) return 'not compared'
  if (!status.comparisons) return 'compares everything'
  if (status.queue.requests + status.queue.missed) return `${plural(status.queue.requests + status.queue.missed, 'thing')} to do`
  return null
}

function standing(status) {
  const follower = status.lead === 'allot' ? 'placement' : 'allot'
  return card('Now', facts([
    ['Leads', names[status.lead]],
    ['Follows', names[follower]],
    ...Object.entries(status.unreachable).map(([side, why]) => [`${names[side]} is away`, why]),
    status.under_way && ['Under way', status.under_way],
    ['Requests to follow', `${number(status.queue.requests)}, ${bytes(status.queue.bytes)}`],
    ['To bring in line', number(status.queue.missed)],
    ['Changed behind the proxy', `${number(status.changed_behind_the_proxy)}, brought in line`],
    ['Everything compared', status.comparisons ? el('span', {}, plural(status.comparisons, 'time'), ', last ', age(status.last_compared)) : 'not yet'],
    status.compare_error && ['Comparison failed', status.compare_error],
    ['Since', time(status.began)],
  ]), el('p', { class: 'soft small' }, `To change who leads: allot-migrate shadow lead ${follower}`))
}

function grid(label, heads, rows) {
  return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, el('table', {},
    el('caption', { class: 'hidden' }, label),
    el('thead', {}, el('tr', {}, heads.map((head, i) => el('th', { scope: 'col', class: i ? 'number' : null }, head)))),
    el('tbody', {}, rows.map((row) => el('tr', {}, row.map((value, i) => el('td', { class: i ? 'number' : null }, value)))))))
}

const outcomes = ['same', 'different', 'passing', 'skipped']

function compared(status) {
  const kinds = Object.keys(status.compared).sort()
  if (!kinds.length) return card('Answers', empty('No answers were compared yet.'))
  return card('Answers', grid('Answers that were compared', ['request', ...outcomes],
    kinds.map((kind) => [kind, ...outcomes.map((outcome) => number(status.compared[kind][outcome] ?? 0))])),
  el('p', { class: 'soft small' }, 'Passing: the same when asked again. Skipped: not compared.'))
}

function difference(one) {
  const body = (title, answer) => [el('h3', {}, `${title}: ${answer.status}`), el('pre', { tabindex: 0 }, answer.body || '(empty)')]
  const [leader, follower] = one.lead === 'allot' ? ['Allot', 'Placement'] : ['Placement', 'Allot']
  return el('li', {},
    el('div', { class: 'when' }, time(one.at), el('span', {}, one.kind)),
    el('div', { class: 'what' },
      el('p', { class: 'words' }, el('code', {}, one.request), one.microversion ? el('span', { class: 'soft' }, ` ${one.microversion}`) : null),
      el('ul', {}, one.differences.map((words) => el('li', {}, el('code', {}, words)))),
      el('details', {}, el('summary', {}, 'Both answers'), body(leader, one.leader), body(follower, one.follower))))
}

function differences(status) {
  const list = [...status.differences].reverse()
  if (!list.length) return card('Differences', empty('None since the start.'))
  return card(`Differences, the last ${number(list.length)}`, el('ul', { class: 'records' }, list.map(difference)))
}

function unrepaired(status) {
  if (!status.unrepaired_count) return null
  return card(`Not in line: ${plural(status.unrepaired_count, 'thing')}`,
    el('p', {}, 'These could not be made equal, and are tried again every minute.'),
    el('ul', {}, status.unrepaired.map(({ what, why }) => el('li', {}, el('code', {}, what), ' ', why))))
}

function render(status) {
  const badge = document.getElementById('badge')
  const wrong = problem(status)
  const words = wrong ?? 'equal'
  if (badge.textContent !== words) badge.textContent = words
  badge.className = `badge ${wrong ? 'warn' : 'good'}`
  document.title = `${names[status.lead]} leads, ${words}`
  const { differences: list, unrepaired: left, ...rest } = status
  show(main,
    part('title', status.lead, () => el('h1', {}, `${names[status.lead]} leads`)),
    el('div', { class: 'split even' }, standing(rest), part('compared', status.compared, () => compared(status))),
    part('unrepaired', [left, status.unrepaired_count], () => unrepaired(status) ?? el('div')),
    part('differences', list, () => differences(status)))
  main.removeAttribute('aria-busy')
}

async function look() {
  const away = document.getElementById('away')
  try {
    const answer = await fetch('/shadow', { headers: { Accept: 'application/json' }, cache: 'no-store' })
    if (!answer.ok) throw new Error(`the proxy answers ${answer.status}`)
    render(await answer.json())
    away.hidden = true
  } catch (error) {
    away.textContent = `The proxy does not answer, so this is what it said last: ${error.message}`
    away.hidden = false
  }
  setTimeout(look, every)
}

look()
