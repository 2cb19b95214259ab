// Bare metal nodes, and the allocations of whole nodes.

import * as api from '../api.js'
import { card, el, empty, show, subject } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'

const page = 500

export async function render(main, _, signal) {
  const nodes = (marker) => list('nodes/detail', 'nodes', marker, signal)
  const allocations = (marker) => list('allocations', 'allocations', marker, signal)
  const [first, second] = await Promise.all([nodes(''), allocations('')])
  show(main, el('h1', {}, moment.isNow() ? 'Bare metal' : `Bare metal at #${moment.sequence()}`),
    card('Nodes', table({
      label: 'Nodes', file: 'nodes', ...first, nothing: empty('No node is enrolled.', 'POST /baremetal/v1/nodes enrols one.'),
      columns: [
        { title: 'Node', value: (n) => n.uuid, show: (n) => subject('node', n.uuid, n.name || n.uuid) }, { title: 'Name', value: (n) => n.name ?? '' },
        { title: 'Class', value: (n) => n.resource_class ?? '' }, { title: 'State', value: (n) => n.provision_state ?? '' }, { title: 'Power', value: (n) => n.power_state ?? '' },
        { title: 'Maintenance', value: (n) => (n.maintenance ? n.maintenance_reason || 'yes' : '') },
        { title: 'Allocation', value: (n) => n.allocation_uuid ?? '', show: (n) => (n.allocation_uuid ? subject('node_allocation', n.allocation_uuid) : '') },
      ],
    })),
    card('Allocations of whole nodes', table({
      label: 'Node allocations', file: 'node-allocations', ...second, nothing: empty('No node is allocated.', 'POST /baremetal/v1/allocations asks for one.'),
      columns: [
        { title: 'Allocation', value: (a) => a.uuid, show: (a) => subject('node_allocation', a.uuid, a.name || a.uuid) }, { title: 'Name', value: (a) => a.name ?? '' }, { title: 'Class', value: (a) => a.resource_class ?? '' },
        { title: 'State', value: (a) => a.state ?? '' }, { title: 'Node', value: (a) => a.node_uuid ?? '', show: (a) => (a.node_uuid ? subject('node', a.node_uuid) : '') },
        { title: 'Owner', value: (a) => a.owner ?? '', show: (a) => (a.owner ? subject('project', a.owner) : '') }, { title: 'Error', value: (a) => a.last_error ?? '' },
      ],
    })))
  return {}
}

async function list(path, key, marker, signal) {
  const answer = await api.baremetal(path, { limit: page, marker }, moment.at(), signal)
  const rows = answer[key]
  return { rows, more: answer.next && rows.length ? () => list(path, key, rows.at(-1).uuid, signal) : null }
}
