// Fills a ledger as a cloud would: hosts in racks, servers that come, move and go,
// and what is unusual. The same number of hosts gives the same ledger.

import { createHash } from 'node:crypto'

const roles = { nova: 'admin,service', operator: 'admin', ironic: 'admin,service' }

// With ALLOT_DEMO names and uuids look as they do in a real cloud; otherwise they
// are hostile, or easy to tell apart.
const demo = process.env.ALLOT_DEMO === 'true'

export const uuid = (kind, n) => (demo ? mixed(kind, n) : `${String(kind).repeat(8)}-0000-4000-8000-${String(n).padStart(12, '0')}`)

const mixed = (kind, n) => createHash('sha256').update(`${kind} ${n}`).digest('hex').replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-4$3-8$4-$5')

// hostile is a name that a client may give a thing.
export const hostile = demo ? 'edge-rack-3' : '<img src=x onerror="window.pwned=1">"><script>window.pwned=1</script>'

// as sends a client's request, and fails unless the status is one of those wanted.
function as(base, user) {
  return async (method, path, body, ...wanted) => {
    const response = await fetch(base + path, {
      method, body: body === undefined ? undefined : JSON.stringify(body),
      headers: {
        'X-Auth-Token': user, 'X-Roles': roles[user], 'Content-Type': 'application/json', 'OpenStack-API-Version': 'placement 1.39',
        'X-OpenStack-Ironic-API-Version': '1.78',
      },
    })
    const text = await response.text()
    if (!wanted.includes(response.status)) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return text ? JSON.parse(text) : null
  }
}

// random is a generator of numbers from 0 to 1 (mulberry32).
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

// inTurns runs tasks, a few at a time.
async function inTurns(tasks, width = 16) {
  const left = tasks.values()
  await Promise.all(Array.from({ length: width }, async () => { for (const task of left) await task() }))
}

export const hostName = (n) => `host-${String(n).padStart(3, '0')}`

// fill makes some hosts, about seven servers for each, and everything else.
export async function fill(base, hosts) {
  const [nova, operator, ironic] = ['nova', 'operator', 'ironic'].map((user) => as(base, user))
  await operator('PUT', '/resource_classes/CUSTOM_FPGA', undefined, 201, 204)
  await operator('PUT', '/traits/CUSTOM_GOLD', undefined, 201, 204)
  await inTurns(Array.from({ length: hosts }, (_, n) => () => host(nova, n, hosts)))
  const servers = await allocate(nova, hosts)
  await move(nova, servers)
  await unusual(nova, operator)
  await metal(ironic)
}

// rackCount is how many racks the hosts are in, one after the other.
const rackCount = demo ? 7 : 2

async function host(nova, n, hosts) {
  const id = uuid(1, n)
  await nova('POST', '/resource_providers', { name: hostName(n), uuid: id }, 200)
  await nova('PUT', `/resource_providers/${id}/inventories`, {
    resource_provider_generation: 0,
    inventories: { VCPU: { total: 32, allocation_ratio: 2, max_unit: 32 }, MEMORY_MB: { total: 131072, reserved: 2048 }, DISK_GB: { total: 2000, reserved: 40 } },
  }, 200)
  if (n % 3 === 0) await nova('PUT', `/resource_providers/${id}/traits`, { resource_provider_generation: 1, traits: ['CUSTOM_GOLD', 'HW_CPU_X86_AVX2'] }, 200)
  await nova('PUT', `/resource_providers/${id}/aggregates`, { resource_provider_generation: n % 3 === 0 ? 2 : 1, aggregates: [uuid(6, 1 + Math.floor((rackCount * n) / hosts))] }, 200)
  if (n % 4 === 0) {
    await nova('POST', '/resource_providers', { name: `${hostName(n)}_pgpu_0`, uuid: uuid(2, n), parent_provider_uuid: id }, 200)
    await nova('PUT', `/resource_providers/${uuid(2, n)}/inventories`, { resource_provider_generation: 0, inventories: { VGPU: { total: 8 } } }, 200)
  }
}

const projects = ['astronomy', 'billing', 'climate', 'genomics', 'search', 'web', hostile]

const flavors = [{ VCPU: 2, MEMORY_MB: 2048, DISK_GB: 20 }, { VCPU: 4, MEMORY_MB: 8192, DISK_GB: 80 }, { VCPU: 8, MEMORY_MB: 16384, DISK_GB: 160 }]

// allocate gives the first hosts more servers than the last ones.
async function allocate(nova, hosts) {
  const next = random(7)
  const servers = []
  for (let n = 0; n < hosts; n++) {
    const wanted = (1 - n / hosts) * 64 * (0.6 + 0.4 * next())
    for (let used = 0; used < wanted;) {
      const flavor = flavors[Math.floor(next() * flavors.length)]
      if (used + flavor.VCPU > 64) break
      used += flavor.VCPU
      const project = projects[Math.floor(next() * next() * projects.length)]
      servers.push({ id: uuid(3, servers.length), host: n, flavor, project, user: ['ada', 'grace', 'linus'][Math.floor(next() * 3)], vgpu: n % 4 === 0 && next() < 0.3 })
    }
  }
  await inTurns(servers.map((s) => () => put(nova, s, s.host, null)))
  return servers
}

const put = (nova, s, host, generation, more = {}, also = 204) => nova('PUT', `/allocations/${s.id}`, {
  allocations: { [uuid(1, host)]: { resources: { ...s.flavor, ...more } }, ...(s.vgpu && host === s.host ? { [uuid(2, host)]: { resources: { VGPU: 1 } } } : {}) },
  project_id: s.project, user_id: s.user, consumer_generation: generation, consumer_type: 'INSTANCE',
}, 204, also)

const generationOf = async (nova, s) => (await nova('GET', `/allocations/${s.id}`, undefined, 200)).consumer_generation

// move moves, resizes and removes some servers. The move of server 0 from
// host-000 to the last but one host, and the end of server 1, are what the tests
// look for.
async function move(nova, servers) {
  const hosts = servers.at(-1).host
  const [first, second] = servers
  first.vgpu = second.vgpu = false
  await put(nova, first, first.host, await generationOf(nova, first))
  await put(nova, first, hosts - 1, await generationOf(nova, first))
  await nova('DELETE', `/allocations/${second.id}`, undefined, 204)
  const third = servers[2]
  third.vgpu = false
  await put(nova, third, third.host, await generationOf(nova, third), { DISK_GB: third.flavor.DISK_GB + 1 })
  await inTurns(servers.slice(40).filter((_, i) => i % 23 === 0).map((s) => async () => {
    s.vgpu = false
    await put(nova, s, hosts - (s.host % 31), await generationOf(nova, s), {}, 409) // some do not fit
  }))
}

// unusual is what an overview should tell of.
async function unusual(nova, operator) {
  await nova('POST', '/resource_providers', { name: hostile, uuid: uuid(4, 1) }, 200)
  await nova('PUT', `/resource_providers/${uuid(4, 1)}/inventories`, { resource_provider_generation: 0, inventories: { VCPU: { total: 8 }, CUSTOM_FPGA: { total: 2 } } }, 200)
  await nova('PUT', `/allocations/${uuid(4, 2)}`, {
    allocations: { [uuid(4, 1)]: { resources: { VCPU: 6 } } }, project_id: hostile, user_id: hostile, consumer_generation: null, consumer_type: 'INSTANCE',
  }, 204)
  const { resource_provider_generation: generation } = await nova('GET', `/resource_providers/${uuid(4, 1)}/inventories`, undefined, 200)
  await operator('PUT', `/resource_providers/${uuid(4, 1)}/inventories`, { resource_provider_generation: generation, inventories: { VCPU: { total: 4 }, CUSTOM_FPGA: { total: 2 } } }, 200)
  for (let i = 0; i < 3; i++) {
    await nova('PUT', `/allocations/${uuid(5, i)}`, {
      allocations: { [uuid(1, i)]: { resources: { VCPU: 1000 + i } } }, project_id: 'climate', user_id: 'ada', consumer_generation: null, consumer_type: 'INSTANCE',
    }, 409, 400)
  }
  await operator('PUT', '/limits', { project_id: 'astronomy', resource_class: 'VCPU', limit: 5000 }, 204)
  await operator('PUT', '/limits', { resource_class: 'VGPU', limit: 100 }, 204)
  await operator('PUT', '/limits', { aggregate: uuid(6, 1), resource_class: 'VCPU', limit: 9000 }, 204)
  await operator('PUT', '/preferences/packed', { prefer: { order: 'pack' } }, 200, 201, 204)
  await racks(operator)
}

// racks puts a card with slices into one of the racks.
async function racks(operator) {
  const rack = (n, block) => [uuid(6, n), { level: block ? 'rack' : 'block', name: `r${n}`, ...(block ? { parent: block } : {}) }]
  await operator('PUT', '/topologies/fabric', { levels: ['block', 'rack'], members: Object.fromEntries(Array.from({ length: 1 + rackCount }, (_, n) => rack(n, n ? uuid(6, 0) : undefined))) }, 204)
  const [card, parts] = [uuid(6, 8), uuid(6, 9)]
  await operator('POST', '/resource_providers', { name: 'card', uuid: card }, 200)
  await operator('PUT', `/resource_providers/${card}/aggregates`, { resource_provider_generation: 0, aggregates: [uuid(6, 1)] }, 200)
  await operator('PUT', `/resource_providers/${card}/counters`, { resource_provider_generation: 1, counters: { SLICE: 7, MODE: 1 } }, 200)
  await operator('POST', '/resource_providers', { name: 'card-parts', uuid: parts, parent_provider_uuid: card }, 200)
  await operator('PUT', `/resource_providers/${parts}/inventories`, { resource_provider_generation: 0, inventories: { CUSTOM_FPGA: { total: 7 } } }, 200)
  await operator('PUT', `/resource_providers/${parts}/counters`, { resource_provider_generation: 1, draws: { CUSTOM_FPGA: { SLICE: 3, MODE: 'SLICED' } } }, 200)
}

async function metal(ironic) {
  for (let i = 0; i < 4; i++) {
    const { uuid: id } = await ironic('POST', '/baremetal/v1/nodes', { name: `metal-${i}`, driver: 'ipmi', resource_class: 'gold', extra: { note: hostile } }, 201)
    for (const target of ['manage', 'provide']) await ironic('PUT', `/baremetal/v1/nodes/${id}/states/provision`, { target }, 200, 202)
  }
  await ironic('POST', '/baremetal/v1/allocations', { name: 'db-1', resource_class: 'gold' }, 201)
}

if (process.argv[1] === new URL(import.meta.url).pathname) await fill(process.argv[2], Number(process.argv[3]))
