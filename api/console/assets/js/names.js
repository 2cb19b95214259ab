// The names of things, which are asked for together.

import * as api from './api.js'

const maxAsked = 150
const known = new Map() // by uuid; empty: it has none
let waiting = new Map() // functions to call, by uuid

// nameInto calls use with the name of a provider or node, if it has one. The
// node is what shows it: if it has gone meanwhile, nothing is called.
export function nameInto(node, id, use) {
  if (known.has(id)) {
    queueMicrotask(() => { if (known.get(id)) use(known.get(id)) })
    return
  }
  if (waiting.size === 0) setTimeout(askAll, 0)
  if (!waiting.has(id)) waiting.set(id, [])
  waiting.get(id).push(() => { if (known.get(id) && node.parentNode) use(known.get(id)) })
}

async function askAll() {
  const asked = [...waiting]
  waiting = new Map()
  for (let i = 0; i < asked.length; i += maxAsked) {
    const part = asked.slice(i, i + maxAsked)
    try {
      const { names } = await api.get('names', { ids: part.map(([id]) => id).join(',') })
      for (const [id, uses] of part) {
        known.set(id, names[id] ?? '')
        for (const use of uses) use()
      }
    } catch {
      // The uuids stay as they are: they are good addresses, too.
    }
  }
}
