// A record in words: who did what, as a sentence with links.

import { amounts, byImportance, el, number, plural, short, subject, time } from './dom.js'
import { learn } from './names.js'

const maxChanges = 3 // that a sentence tells of; the others are a click away

// sentence tells what a record of the timeline did.
export function sentence(item) {
  learn(item.names)
  const actor = el('b', { class: 'actor' }, item.actor || 'a client')
  const told = item.changes.filter((change) => change.of === 'consumer').map(consumerWords)
  const tell = (some) => some.forEach((event) => told.push(events[event.kind](event.data)))
  const known = item.events.filter((event) => events[event.kind])
  tell(known.filter((event) => !beside.has(event.kind)))
  if (told.length === 0) tell(known)
  if (told.length === 0) return el('p', { class: 'words' }, actor, ` carried out ${spaced(item.command)}`)
  const more = Math.max(item.change_count, told.length) - maxChanges
  return el('p', { class: 'words' }, actor, ' ', told.slice(0, maxChanges).map((one, i) => [i > 0 ? '; ' : '', one]),
    more > 0 ? el('span', { class: 'soft' }, `; and ${number(more)} more`) : null)
}

// spaced turns AllocateForConsumers into "allocate for consumers".
export const spaced = (name) => name.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase()

// consumerWords tells how what a consumer holds has changed.
export function consumerWords({ name, before, after }) {
  const who = (state) => ['consumer ', subject('consumer', name, short(name)), ' (project ', subject('project', state.project), ')']
  if (before === null && after === null) return ['changed consumer ', subject('consumer', name, short(name))]
  if (before === null) {
    return [after.reserved_until ? 'reserved ' : 'allocated ', amounts(summed(after)), ' on ', hosts(after), ' for ', who(after),
      after.reserved_until ? [' until ', time(after.reserved_until)] : null]
  }
  if (after === null) return ['released ', who(before), ': ', amounts(summed(before)), ' on ', hosts(before)]
  const [was, is] = [hostsOf(before), hostsOf(after)]
  const left = was.filter((host) => !is.includes(host))
  const joined = is.filter((host) => !was.includes(host))
  if (left.length > 0 && joined.length > 0) {
    return ['moved ', who(after), ' from ', links(left), ' to ', links(joined), ': ', amounts(summed(after))]
  }
  const parts = []
  if (left.length) parts.push(['took ', who(after), ' off ', links(left)])
  if (joined.length) parts.push(['extended ', who(after), ' to ', links(joined)])
  const differing = difference(summed(before), summed(after))
  if (differing && !left.length && !joined.length) parts.push(['resized ', who(after), ' on ', hosts(after), ': ', differing])
  else if (differing) parts.push(differing)
  if (before.project !== after.project) parts.push(['gave ', who(after), ' to another project, before ', subject('project', before.project)])
  else if (before.user !== after.user) parts.push(['gave ', who(after), ' to user ', subject('user', after.user)])
  if (before.reserved_until && !after.reserved_until) parts.push(['confirmed the reservation of ', who(after), ': ', amounts(summed(after)), ' on ', hosts(after)])
  if (parts.length === 0) return ['confirmed what ', who(after), ' holds: ', amounts(summed(after)), ' on ', hosts(after)]
  return parts.map((part, i) => [i > 0 ? ', ' : '', part])
}

// summed adds up what a consumer holds, by class.
export function summed(state) {
  const sums = {}
  for (const a of state.allocations ?? []) sums[a.class] = (sums[a.class] ?? 0) + a.amount
  return sums
}

const hostsOf = (state) => [...new Set((state.allocations ?? []).map((a) => a.provider))]

const hosts = (state) => links(hostsOf(state))

function links(ids) {
  const shown = ids.slice(0, 3).map((id, i) => [i > 0 ? ' and ' : '', subject('provider', id)])
  return ids.length > 3 ? [shown, ` and ${ids.length - 3} more`] : shown
}

function difference(before, after) {
  const classes = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort(byImportance)
  const differing = classes.filter((name) => before[name] !== after[name])
  return differing.map((name) => `${name} ${number(before[name] ?? 0)} → ${number(after[name] ?? 0)}`).join(', ')
}

const inventory = (inv) => `${number(inv.total)} ${inv.class}`
const provider = (id, name) => (name ? [subject('provider', id, name)] : subject('provider', id))
const list = (names) => (names.length ? names.slice(0, 6).join(', ') + (names.length > 6 ? ` and ${names.length - 6} more` : '') : 'none')
const limited = (e) => [e.project ? ['project ', subject('project', e.project)] : 'every project', ` to ${e.class || `consumers of type ${e.type}`}`]

// beside are the kinds of events that only go with others: a sentence tells of
// them when it would have nothing else to tell.
const beside = new Set(['ProviderGenerationsAdvanced'])

// events are the words for events that are not about consumers. Those of
// consumers are told by what has changed.
const events = {
  LedgerCreated: () => 'began the ledger',
  StandardNamesAdded: (e) => `added ${number((e.classes ?? []).length)} standard classes and ${number((e.traits ?? []).length)} traits`,
  TraitCreated: (e) => `created trait ${e.name}`,
  TraitDeleted: (e) => `deleted trait ${e.name}`,
  ClassCreated: (e) => `created resource class ${e.name}`,
  ClassRenamed: (e) => `renamed a resource class to ${e.name}`,
  ClassDeleted: (e) => `deleted resource class ${e.name}`,
  ProviderCreated: (e) => ['created provider ', provider(e.provider, e.name), e.parent ? [' below ', subject('provider', e.parent)] : null],
  ProviderRenamed: (e) => ['renamed provider ', el('span', { class: 'uuid' }, short(e.provider)), ' to ', provider(e.provider, e.name)],
  ProviderReparented: (e) => ['moved provider ', subject('provider', e.provider), e.parent ? [' below ', subject('provider', e.parent)] : ' to the top'],
  ProviderDeleted: (e) => ['deleted provider ', subject('provider', e.provider)],
  InventoriesReplaced: (e) => ['set the inventories of ', subject('provider', e.provider), `: ${list(e.inventories.map(inventory))}`],
  InventorySet: (e) => ['set the inventory of ', subject('provider', e.provider), `: ${inventory(e.inventory)}`],
  InventoryDeleted: (e) => [`deleted the inventory of ${e.class} of `, subject('provider', e.provider)],
  ProviderTraitsReplaced: (e) => ['set the traits of ', subject('provider', e.provider), `: ${list(e.traits)}`],
  ProviderCountersReplaced: (e) => ['set the counters of ', subject('provider', e.provider),
    `: ${list([...(e.counters ?? []).map((c) => `${c.name} ${number(c.total)}`), ...(e.draws ?? []).map((d) => `one ${d.class} draws ${d.mode ?? number(d.amount)} of ${d.counter}`)])}`],
  ProviderAggregatesReplaced: (e) => ['put ', subject('provider', e.provider), ` into ${plural(e.aggregates.length, 'aggregate')}`],
  LimitSet: (e) => ['limited ', limited(e), `: at most ${number(e.most)}`],
  LimitRemoved: (e) => ['took away the limit of ', limited(e)],
  AggregateLimitSet: (e) => [`limited ${e.class} in aggregate ${e.aggregate}`, `: at most ${number(e.most)}`],
  AggregateLimitRemoved: (e) => `took away the limit of ${e.class} in aggregate ${e.aggregate}`,
  ProjectPlaced: (e) => ['put project ', subject('project', e.project), e.parent ? [' below project ', subject('project', e.parent)] : ' at the top'],
  NodeCreated: (e) => ['enrolled node ', subject('node', e.node)],
  NodeDescribed: (e) => ['described node ', subject('node', e.node)],
  NodeStateSet: (e) => ['set node ', subject('node', e.node), ` to ${e.provision_state}${e.maintenance ? ', in maintenance' : ''}`],
  NodeTraitsReplaced: (e) => ['set the traits of node ', subject('node', e.node), `: ${list(e.traits)}`],
  NodeInstanceSet: (e) => ['set the instance of node ', subject('node', e.node)],
  NodeDeleted: (e) => ['deleted node ', subject('node', e.node)],
  AllocationRequested: (e) => ['asked for a whole node', e.resource_class ? ` of class ${e.resource_class}` : '', e.name ? ` for ${e.name}` : '',
    ' (', subject('node_allocation', e.allocation, short(e.allocation)), ')'],
  NodeAllocated: (e) => ['gave node ', subject('node', e.node), ' to ', subject('node_allocation', e.allocation, short(e.allocation))],
  AllocationFailed: (e) => ['found no node for ', subject('node_allocation', e.allocation, short(e.allocation)), `: ${e.last_error}`],
  NodeAllocationUpdated: (e) => ['changed node allocation ', subject('node_allocation', e.allocation, short(e.allocation))],
  NodeAllocationReleased: (e) => ['released node allocation ', subject('node_allocation', e.allocation, short(e.allocation))],
  ChassisCreated: (e) => ['created chassis ', subject('chassis', e.chassis, short(e.chassis))],
  ChassisDescribed: (e) => ['described chassis ', subject('chassis', e.chassis, short(e.chassis))],
  ChassisDeleted: (e) => ['deleted chassis ', subject('chassis', e.chassis, short(e.chassis))],
  NodeProvidersSet: (e) => `turned providers for nodes ${e.on ? 'on' : 'off'}`,
  TermBegan: (e) => `began term ${number(e.term)}, led by ${e.leader}`,
  PreferenceSet: (e) => `set preference ${e.name}`,
  PreferenceRemoved: (e) => `took away preference ${e.name}`,
  TopologySet: (e) => `declared topology ${e.name}`,
  ConsumptionRootSet: (e) => `committed to what ${e.projects === 1 ? '1 project' : `${e.projects} projects`} consumed up to ${new Date(e.at / 1e6).toISOString()}`,
  TopologyRemoved: (e) => `took away topology ${e.name}`,
  ProviderGenerationsAdvanced: (e) => `advanced the generations of ${plural(e.providers.length, 'provider')}`,
  ContentsImported: (e) => `imported ${plural(e.rows, 'row')} from ${e.source}`,
  ProviderImported: (e) => ['imported provider ', provider(e.provider, e.name), e.parent ? [' below ', subject('provider', e.parent)] : null],
  ChassisImported: (e) => ['imported chassis ', subject('chassis', e.chassis, short(e.chassis))],
  NodeImported: (e) => ['imported node ', subject('node', e.node)],
  NodeAllocationImported: (e) => ['imported node allocation ', subject('node_allocation', e.allocation, short(e.allocation))],
}

