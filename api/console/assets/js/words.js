// What records did, as the server says it, with links.

import { withQuery } from './address.js'
import { el, subject } from './dom.js'

// sentence shows the words of a record or a difference.
export function sentence({ words }) {
  return el('p', { class: 'words' }, words.map(({ text, of, name }) => {
    if (of === 'actor') return el('a', { class: 'actor', href: withQuery('#/timeline', { actor: name }) }, text)
    return of ? subject(of, name, text) : text
  }))
}

// spaced turns AllocateForConsumers into "allocate for consumers".
export const spaced = (name) => name.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase()

// commands are those that clients send, for filters.
export const commands = [
  'AddNodeTrait', 'AddStandardNames', 'AllocateForConsumers', 'BackfillNodeAllocation', 'BeginTerm',
  'CancelReservation', 'ChooseNode', 'Claim', 'ConfirmReservation', 'CreateChassis', 'CreateInventory', 'CreateNode',
  'CreateProvider', 'CreateResourceClass', 'CreateTrait', 'DeleteChassis', 'DeleteInventories', 'DeleteInventory',
  'DeleteNode', 'DeleteProvider', 'DeleteResourceClass', 'DeleteTrait', 'ExpireReservation', 'PlaceProject',
  'ReleaseConsumer', 'ReleaseNodeAllocation', 'RemoveNodeTrait', 'RenameProvider', 'RenameResourceClass',
  'ReparentProvider', 'ReplaceInventories', 'ReplaceNodeTraits', 'ReplaceProviderAggregates', 'ReplaceProviderCounters',
  'ReplaceProviderTraits', 'RequestNodeAllocation', 'Reserve', 'Reshape', 'SetConsumptionRoot', 'SetLimit',
  'SetNodeMaintenance', 'SetNodePowerState', 'SetNodeProviders', 'SetNodeProvisionState', 'SetPreference',
  'SetTopology', 'UpdateChassis', 'UpdateInventory', 'UpdateNode', 'UpdateNodeAllocation', 'UpdateProvider',
]

// summed adds up what a consumer holds, by class.
export function summed(state) {
  const sums = {}
  for (const a of state.allocations ?? []) sums[a.class] = (sums[a.class] ?? 0) + a.amount
  return sums
}
