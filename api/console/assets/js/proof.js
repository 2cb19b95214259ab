// Checks in the browser that a record is in the tree of a checkpoint (RFC 6962).

const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))
const hexOf = (bytes) => [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('')
const fromHex = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16))

async function hash(prefix, ...parts) {
  const all = new Uint8Array(1 + parts.reduce((n, part) => n + part.length, 0))
  all[0] = prefix
  let at = 1
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return new Uint8Array(await crypto.subtle.digest('SHA-256', all))
}

// readCheckpoint reads the size, root and signers of a signed checkpoint.
export function readCheckpoint(text) {
  const [, size, root] = text.split('\n')
  return { signers: [...text.matchAll(/^— (\S+) \S+$/gm)].map(([, name]) => name).join(', '), size: Number(size), root: hexOf(bytesOf(root)) }
}

// checkInclusion computes the root from a leaf and its path.
export async function checkInclusion(evidence, size, root) {
  if (!globalThis.crypto?.subtle) return { good: null, text: 'Not checked: browsers compute hashes only over HTTPS or on localhost' }
  const path = evidence.path.map(fromHex)
  const leaf = await hash(0, bytesOf(evidence.leaf))
  const computed = await climb(path, 0, size, evidence.number, leaf)
  const good = computed !== null && hexOf(computed) === root
  return { good, text: good ? 'The record is in the log' : 'The record is NOT in the tree of this checkpoint' }
}

// climb returns the root of the leaves from low to high, of which one is known.
async function climb(path, low, high, number, leaf) {
  if (low + 1 === high) return path.length === 0 ? leaf : null
  if (path.length === 0) return null
  let half = 1
  while (half * 2 < high - low) half *= 2
  const [rest, last] = [path.slice(0, -1), path.at(-1)]
  if (number < low + half) {
    const left = await climb(rest, low, low + half, number, leaf)
    return left && hash(1, left, last)
  }
  const right = await climb(rest, low + half, high, number, leaf)
  return right && hash(1, last, right)
}
