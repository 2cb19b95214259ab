// Two states of the same thing, side by side.

import { el, facts, folded, json, named } from './dom.js'

const maxShown = 200

// flat turns a value into paths and what is there.
function flat(value, path = [], into = new Map()) {
  if (value !== null && typeof value === 'object') {
    for (const [key, child] of Object.entries(value)) flat(Array.isArray(value) ? rest(child) : child, [...path, keyOf(value, key, child)], into)
  } else if (path.length) {
    into.set(path.join('\n'), value)
  }
  return into
}

const naming = ['class', 'provider', 'user', 'type'] // what elements of a list are called by

// rest is an element of a list without what it is called by.
function rest(child) {
  if (child === null || typeof child !== 'object' || Array.isArray(child)) return child
  return Object.fromEntries(Object.entries(child).filter(([key]) => !naming.includes(key)))
}

// keyOf calls elements of a list what they are about, so that one that was
// added does not make all behind it look different.
function keyOf(parent, key, child) {
  if (!Array.isArray(parent)) return key
  if (child === null || typeof child !== 'object') return String(child)
  return naming.map((name) => child[name]).filter(Boolean).join(' ') || key
}

const shown = (value) => (value === undefined ? '' : named(typeof value === 'string' ? value : JSON.stringify(value)))

// told is a path in words.
const told = (path) => path.split('\n').map((part, i) => [i > 0 ? ' › ' : '', named(part.split(' ').map((word) => (/[A-Z]|-.*-/.test(word) ? word : word.replaceAll('_', ' '))).join(' '))])

// difference shows what is not the same, or all if one side is null.
export function difference(before, after) {
  const was = flat(before)
  const is = flat(after)
  const paths = [...new Set([...was.keys(), ...is.keys()])].filter((path) => was.get(path) !== is.get(path))
  if (paths.length === 0) return el('p', { class: 'soft' }, 'Nothing that is shown has changed.')
  return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Before and after' }, el('table', { class: 'diff' },
    el('thead', {}, el('tr', {}, ['What', 'Before', 'After'].map((name) => el('th', { scope: 'col' }, name)))),
    el('tbody', {}, paths.slice(0, maxShown).map((path) => el('tr', {},
      el('th', { scope: 'row' }, told(path)),
      el('td', { 'data-title': 'Before', class: was.has(path) ? 'before' : 'same' }, el('div', {}, shown(was.get(path)))),
      el('td', { 'data-title': 'After', class: is.has(path) ? 'after' : 'same' }, el('div', {}, shown(is.get(path)))))))),
  paths.length > maxShown ? el('p', { class: 'soft' }, `${paths.length - maxShown} more are not shown`) : null)
}

// data shows a value field by field; its JSON is a click away.
export function data(value) {
  return el('div', { class: 'data' }, facts([...flat(value)].slice(0, maxShown).map(([path, one]) => [named(path.replaceAll('\n', ' › ')), shown(one)])), folded('As JSON', () => json(value)))
}
