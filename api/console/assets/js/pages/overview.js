// The whole fleet: how full it is, what happens, and what is unusual.

import { linkTo, withQuery } from '../address.js'
import * as api from '../api.js'
import { chart } from '../chart.js'
import { age, byImportance, bytes, card, choice, el, empty, failure, number, percent, plural, short, show, subject, track } from '../dom.js'
import { history } from '../entries.js'
import { heat } from '../heat.js'
import * as moment from '../moment.js'
import { aligned, picker, span, stepOf, word } from '../range.js'
import { lastComparison } from './orphans.js'
import { overTime } from './parts.js'
import { verdict } from './verification.js'

const soon = 15 * 60_000 // a reservation that ends within this time is unusual
const cells = 20_000
const maxGroups = 200
const fleetReads = 2_000_000 // providers that the server reads for a series

export async function render(main, { query }, signal) {
  const wanted = { class: query.class ?? '', order: query.order ?? 'fullest' }
  const fleet = await api.get('fleet', { ...wanted, limit: cells, at: moment.at() }, signal)
  fleet.classes.sort((a, b) => byImportance(a.class, b.class))
  const [map, unusual, activity, trends, recent] = ['heat-card', 'unusual', 'activity', 'trends', 'recent'].map((name) => el('div', { class: name }))
  show(main, el('h1', {}, 'Overview'), tiles(fleet, query), el('div', { class: 'split' }, map, unusual), el('div', { class: 'split' }, activity, recent), trends)
  show(map, heatCard(fleet, query.by ?? '', ...await Promise.all([groupings(signal), grouped(fleet.cells, query.by ?? '', signal)])))
  const part = (node, title, fill) => fill().catch((error) => {
    if (error.name !== 'AbortError') show(node, card(title, failure(error)))
  })
  await Promise.all([
    part(unusual, 'Unusual', async () => show(unusual, await unusualCard(fleet, signal))),
    part(activity, 'Commands', async () => show(activity, await activityCard(fleet, signal))),
    part(recent, 'Latest', async () => show(recent, await recentCard(signal))),
  ])
  if (fleet.classes.length) part(trends, 'Trends', async () => show(trends, await overTime({ fleet: true }, 'fleet', signal, 'Totals over time', Math.max(7, Math.min(60, Math.floor(fleetReads / fleet.providers) - 1)))))
  return refresh(main, query, signal)
}

// refresh shows the page again some time after something has happened.
function refresh(main, query, signal) {
  let waiting = 0
  const again = () => {
    const focused = document.activeElement
    if (signal.aborted || main.contains(focused) || main.matches(':hover')) waiting = signal.aborted ? 1 : setTimeout(again, 5000)
    else render(main, { query }, signal).catch(() => {})
  }
  return { record() { waiting ||= setTimeout(again, 5000) } }
}

function tiles(fleet, query) {
  const tile = (value, label, href) => el('a', { class: 'tile', href }, el('b', {}, number(value)), el('span', {}, label))
  return el('div', {}, el('div', { class: 'tiles' },
    tile(fleet.providers, 'providers', linkTo('providers')), tile(fleet.trees, 'trees', linkTo('providers')),
    tile(fleet.classes.length, 'classes', linkTo('limits')), tile(fleet.sequence, 'commits', linkTo('timeline'))),
  fleet.classes.length
    ? el('div', { class: 'classes' }, fleet.classes.map((c) => el('a', { class: 'class-tile', href: withQuery('#/overview', { ...query, at: '', class: c.class }), 'aria-current': c.class === fleet.cells.class ? 'true' : null },
      el('span', { class: 'name' }, c.class), el('span', { class: 'share' }, percent(c.capacity > 0 ? c.used / c.capacity : 0)), track(c.used, c.capacity),
      el('span', { class: 'amount' }, `${number(c.used)} of ${number(c.capacity)}`), fullness(c))))
    : null)
}

// fullness is how many trees are how full, in eleven small columns.
function fullness(c) {
  const most = Math.max(1, ...c.fullness)
  return el('div', { class: 'fullness', role: 'img', 'aria-label': `Of ${number(c.trees)} trees, ${number(c.fullness.at(-1))} are full and ${number(c.fullness[0])} use less than a tenth` },
    c.fullness.map((n, i) => {
      const column = el('span', { class: i === c.fullness.length - 1 ? 'full' : null, title: `${i < 10 ? `${i * 10} to ${i * 10 + 10} %` : 'full'}: ${number(n)} trees` })
      column.style.height = `${n === 0 ? 0 : Math.max(8, (100 * n) / most)}%`
      return column
    }))
}

// groupings are what the heat map can be parted by.
async function groupings(signal) {
  const { topologies } = await api.placement('/topologies', { at: moment.at(), signal }).catch(() => ({ topologies: [] })) // a reader may lack the right
  return [['', 'together'], ['aggregate', 'by aggregate'], ...topologies.map((t) => [`topology:${t.name}`, `by ${t.levels.join(' and ')} of ${t.name}`])]
}

// grouped parts cells by aggregates, or by the domains of a topology: each group has the path of domains that it is in.
async function grouped({ roots, aggregates, in: within }, by, signal) {
  const all = roots.map((_, i) => i)
  if (!by) return [{ path: [], of: all }]
  const name = by.startsWith('topology:') ? by.slice(9) : null
  const { members } = name === null ? { members: null } : await api.placement(`/topologies/${encodeURIComponent(name)}`, { at: moment.at(), signal })
  const names = members ? {} : await called(aggregates, signal)
  const pathOf = (id) => (members ? (members[id] ? [...pathOf(members[id].parent), members[id].name] : []) : [names[id] ?? short(id)])
  const paths = aggregates.map(pathOf)
  const groups = new Map()
  for (const i of all) {
    const own = within[i].map((n) => paths[n]).filter((path) => path.length).sort((a, b) => b.length - a.length)
    for (const path of own.length === 0 ? [[members ? 'in no domain' : 'in no aggregate']] : members ? own.slice(0, 1) : own) {
      const key = path.join('\n')
      if (!groups.has(key)) groups.set(key, { path, of: [], last: own.length === 0 })
      groups.get(key).of.push(i)
    }
  }
  return [...groups.values()].sort((a, b) => a.last - b.last || a.path.join('\n').localeCompare(b.path.join('\n'), undefined, { numeric: true }))
}

async function called(ids, signal) {
  const parts = Array.from({ length: Math.ceil(ids.length / 150) }, (_, i) => ids.slice(150 * i, 150 * (i + 1)))
  return Object.assign({}, ...(await Promise.all(parts.map((part) => api.get('names', { ids: part.join(',') }, signal)))).map(({ names }) => names))
}

function heatCard(fleet, by, groupsBy, groups) {
  if (fleet.cells.roots.length === 0) {
    return card('Fullness', empty('No provider has an inventory yet.', 'A provider is made with POST /resource_providers and gets an inventory with PUT /resource_providers/{uuid}/inventories; nova-compute does both by itself.'))
  }
  const go = (changed) => { location.hash = withQuery('#/overview', { class: fleet.cells.class, order: fleet.cells.order, by, ...changed }) }
  const byClass = choice('Class', fleet.classes.map((c) => c.class), fleet.cells.class, (value) => go({ class: value }))
  const order = choice('Order', [['fullest', 'fullest first'], ['emptiest', 'emptiest first'], ['name', 'by name']], fleet.cells.order, (value) => go({ order: value }))
  const part = choice('Racks', groupsBy, by, (value) => go({ by: value }))
  const { trees, roots } = fleet.cells
  return el('section', { class: 'card' },
    el('div', { class: 'row' }, el('h2', {}, `${number(trees)} trees with ${fleet.cells.class}`), el('span', { class: 'spring' }), byClass.node, order.node, part.node),
    heat(fleet.cells, groups.slice(0, maxGroups), (i) => { location.hash = linkTo('subject', 'provider', roots[i]) }),
    groups.length > maxGroups ? el('p', { class: 'soft' }, `The first ${maxGroups} of ${number(groups.length)} groups are shown.`) : null,
    roots.length < trees ? el('p', { class: 'soft' }, `The first ${number(roots.length)} of ${number(trees)} are shown; `, el('a', { href: linkTo('providers') }, 'the list has all'), '.') : null)
}

// unusualCard lists what needs a look, and what was checked.
async function unusualCard(fleet, signal) {
  const [status, reserved, cluster] = await Promise.all([
    api.get('status', {}, signal), api.get('reservations', { limit: 1000 }, signal), clusterState(signal),
  ])
  const over = fleet.classes.reduce((n, c) => n + c.over, 0)
  const ending = reserved.reservations.filter((r) => Date.parse(r.reserved_until) - Date.now() < soon)
  const check = verdict(status)
  const compared = lastComparison()
  const line = (kind, title, text) => el('li', { class: kind }, el('b', {}, title), el('span', {}, text))
  const disk = status.disk
  const stores = disk?.stores ?? []
  const days = Math.min(...[disk, ...stores].map((one) => one?.days_left ?? Infinity))
  const filling = stores.some((s) => s.free < s.reserve) ? 'bad' : stores.some((s) => s.days_left < 30) ? 'warn' : 'good'
  return card('Unusual', el('ul', { class: 'checks' },
    line(over ? 'bad' : 'good', 'Over capacity', over ? [`${plural(over, 'inventory', 'inventories')}: `, fleet.over.slice(0, 5).map((o, i) => [i ? ', ' : '', subject('provider', o.provider, o.name), ` ${number(o.used)} / ${number(o.capacity)} ${o.class}`])] : 'nothing'),
    line(ending.length ? 'warn' : 'good', 'Reservations', [ending.length ? `${reserved.incomplete && ending.length === reserved.reservations.length ? 'at least ' : ''}${plural(ending.length, 'ends', 'end')} soon, the first ` : `${number(reserved.reservations.length)}${reserved.incomplete ? ' or more' : ''}, none ends soon`,
      ending.length ? age(ending[0].reserved_until) : null, ' · ', el('a', { href: linkTo('reservations') }, 'list')]),
    compared
      ? line(compared.orphans ? 'bad' : 'good', 'Orphans', [`${number(compared.orphans)} in the comparison `, age(compared.time), ' · ', el('a', { href: linkTo('orphans') }, 'compare')])
      : line('', 'Orphans', ['the ledger does not know who exists: ', el('a', { href: linkTo('orphans') }, 'compare it with a list')]),
    line(check.className, 'Verification', [check.text, ' · ', el('a', { href: linkTo('verification') }, 'details')]),
    disk ? line(disk.free < disk.reserve ? 'bad' : days < 30 ? 'warn' : 'good', 'Disk',
      `${bytes(disk.free)} free${days === Infinity ? ', too few commands to say for how long' : `, for ${number(Math.floor(days))} days at the pace of today`}`) : null,
    stores.length ? line(filling, 'Stores', stores.map((s) => `${s.name} ${bytes(s.bytes)}`).join(' · ')) : null,
    cluster))
}

// clusterState is a line about the servers of the ledger.
async function clusterState(signal) {
  const line = (kind, text) => el('li', { class: kind }, el('b', {}, 'Cluster'), el('span', {}, text))
  const health = await api.server('/healthz', signal)
  if (!health.term) return line('', 'this server is the only one')
  try {
    const cluster = await api.server('/cluster', signal)
    const away = cluster.members.filter((m) => m.role === 'away')
    const behind = Math.max(0, ...cluster.members.filter((m) => m.role === 'follower').map((m) => m.lag_commits))
    return line(!cluster.leader || away.length ? 'bad' : 'good', [
      cluster.leader ? `${cluster.leader} leads term ${number(cluster.term)}; ` : 'no server leads; ', cluster.members.map((m) => `${m.name} ${m.role}`).join(', '),
      behind ? `; up to ${number(behind)} commits behind` : ''])
  } catch (error) {
    if (error.status !== 403) throw error
    return line('', `${health.leader || 'no server'} leads term ${number(health.term)}, this server is the ${health.role}`)
  }
}

// activityCard is how many commands there were, in the span that is picked.
async function activityCard(fleet, signal) {
  const [place, title] = [el('div'), el('h2')]
  const draw = async () => {
    const given = span('hour', moment.isNow() ? '' : fleet.time, fleet.time)
    const answers = []
    const spans = await aligned(given, 60, async (since, until, points) => {
      const answer = await api.get('activity', { since, until, points }, signal)
      answers.push(answer)
      return answer.spans
    })
    const sum = (key) => spans.reduce((n, one) => n + one[key], 0)
    const bars = (key, stroke) => [`${key} commands`, spans.map((one) => one.end), [{ label: key, values: spans.map((one) => one[key]), stroke, shade: true }], { bars: true }]
    show(title, `Commands per ${word(stepOf(given, 60))}`)
    show(place, chart([el('b', {}, 'Accepted'), ` ${number(sum('records'))}`], ...bars('records', 'fill')),
      answers.every((one) => one.kept)
        ? chart([el('b', {}, 'Rejected'), ` ${number(sum('rejected'))}${answers.some((one) => one.incomplete) ? ' or more' : ''} · `, el('a', { href: linkTo('rejected') }, 'why')], ...bars('rejected', 'over'))
        : el('p', { class: 'soft' }, 'This server keeps no rejected commands now; its log says why.'))
  }
  await draw()
  return card(null, el('div', { class: 'row' }, title, el('span', { class: 'spring' }), picker('hour', () => draw().catch((error) => show(place, failure(error))))), place)
}

async function recentCard(signal) {
  const { node } = await history('Latest records', () => api.get('timeline', { limit: 6, at: moment.at() }, signal).then((page) => ({ ...page, next: '' })), empty('Nothing has happened yet.'))
  return card('Latest', node, el('p', {}, el('a', { href: linkTo('timeline') }, 'All records')))
}
