// Two states of the same thing, side by side.

import { el } from './dom.js'

// flat turns a value into paths and what is there.
function flat(value, path = '', into = new Map()) {
  if (value !== null && typeof value === 'object') {
    for (const [key, child] of Object.entries(value)) flat(child, path ? `${path}.${keyOf(value, key, child)}` : keyOf(value, key, child), into)
  } else if (path) {
    into.set(path, value)
  }
  return into
}

// keyOf calls elements of a list what they are about, so that one that was
// added does not make all behind it look different.
function keyOf(parent, key, child) {
  if (!Array.isArray(parent)) return key
  if (child === null || typeof child !== 'object') return String(child)
  return [child.provider, child.user, child.class, child.type].filter(Boolean).join(' ') || key
}

const shown = (value) => (value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value))

// difference shows what is not the same, or all if one side is null.
export function difference(before, after) {
  const was = flat(before)
  const is = flat(after)
  const paths = [...new Set([...was.keys(), ...is.keys()])].filter((path) => was.get(path) !== is.get(path))
  if (paths.length === 0) return el('p', { class: 'soft' }, 'Nothing that is shown has changed.')
  return el('div', { class: 'scroll' }, el('table', { class: 'diff' },
    el('thead', {}, el('tr', {}, ['', 'Before', 'After'].map((name) => el('th', { scope: 'col' }, name)))),
    el('tbody', {}, paths.slice(0, 200).map((path) => el('tr', {},
      el('th', { scope: 'row', class: 'mono' }, path),
      el('td', { class: was.has(path) ? 'before' : 'same' }, shown(was.get(path))),
      el('td', { class: is.has(path) ? 'after' : 'same' }, shown(is.get(path)))))),
    paths.length > 200 ? el('caption', {}, `${paths.length - 200} more are not shown`) : null))
}
