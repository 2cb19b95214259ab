// Elements are made of data with textContent only: names come from clients
// and may hold anything.

import { linkTo, withQuery } from './address.js'
import { nameInto } from './names.js'

// el makes an element. Attributes that are functions are listeners, null and
// false ones are left out; children that are null are, too.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(name, value)
    else if (value === true) node.setAttribute(name, '')
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value)
  }
  node.append(...present(children))
  return node
}

// show replaces what an element holds.
export function show(node, ...children) {
  node.replaceChildren(...present(children))
}

const present = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)

const times = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

// time is a moment for people; the whole of it is in its title.
export function time(text) {
  return el('time', { datetime: text, title: text }, times.format(new Date(text)))
}

// localTime is a moment in the form of a field for date and time; empty: it is none.
export function localTime(text) {
  const date = new Date(text)
  return Number.isNaN(date.getTime()) ? '' : new Date(date - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

const ages = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })
const units = [['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]]

// age is how long ago something was, or how soon it will be.
export function age(text) {
  const seconds = (new Date(text) - Date.now()) / 1000
  const [unit, length] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units.at(-1)
  return el('time', { datetime: text, title: text }, ages.format(Math.trunc(seconds / length), unit))
}

const numbers = new Intl.NumberFormat(undefined, { useGrouping: 'min2' })

export const number = (n) => numbers.format(Number(n))

export const percent = (share) => `${share >= 0.0995 || share === 0 ? Math.round(share * 100) : (share * 100).toFixed(1)} %`

const sizes = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

// bytes is a size for people.
export function bytes(n) {
  let step = 0
  for (; n >= 1024 && step < sizes.length - 1; step++) n /= 1024
  return `${n >= 100 || step === 0 ? Math.round(n) : n.toFixed(1)} ${sizes[step]}`
}

// amounts is what is held, by class.
export const amounts = (byClass) => Object.keys(byClass ?? {}).sort(byImportance).map((name) => `${number(byClass[name])} ${name}`).join(', ')

const first = ['VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB']

// byImportance sorts classes: those that everybody looks at come first.
export function byImportance(a, b) {
  const [one, other] = [a, b].map((name) => (first.includes(name) ? first.indexOf(name) : first.length))
  return one - other || a.localeCompare(b)
}

// json is a value for people who read JSON.
export function json(value) {
  return el('pre', { tabindex: 0 }, JSON.stringify(value, null, 2))
}

const uuid = /^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/
const within = /([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/

// short is a uuid as far as people compare it: from where it differs, if others begin as it does.
export function short(id, others = []) {
  if (!uuid.test(id)) return id
  const same = Math.max(0, ...others.filter((one) => one !== id).map((one) => [...id].findIndex((c, i) => c !== one[i])))
  return same < 8 ? `${id.slice(0, 8)}…` : `${id.slice(0, 8)}…${id.slice(Math.max(9, Math.min(same - 1, 28)))}`
}

// copy shows a part of an id; a click shows the whole and copies it.
export function copy(id, text) {
  const button = el('button', { type: 'button', class: 'uuid', title: `Copy ${id}`, 'aria-label': `Copy ${id}`, click: () => {
    button.replaceChildren(el('code', {}, id))
    navigator.clipboard?.writeText(id).catch(() => {}) // it needs a secure context; the selection does not
    getSelection().selectAllChildren(button)
  } }, text)
  return button
}

// named shows a text with names in the place of uuids.
export const named = (text) => String(text).split(within).map((part, i) => (i % 2 ? subject('any', part) : part))

// failure says what is wrong.
export const failure = (error) => el('p', { class: 'error', role: 'alert' }, named(error.message))

// kindName is a kind of entity in words.
export const kindName = (of) => of.replace('_', ' ')

// subject links to the page of something with a history. A uuid is short, and
// replaced by a name as soon as one is known; the whole is a click away.
export function subject(of, name, text = null) {
  const link = el('a', { href: linkTo('subject', of, name), title: name }, text ?? name)
  if (text !== null || !uuid.test(name)) return link
  show(link, name.slice(0, 8), el('span', { class: 'rest' }, name.slice(8)))
  link.className = 'id'
  const button = copy(name, '…')
  if (of !== 'consumer' && of !== 'command') {
    nameInto(link, name, (title) => { link.textContent = title; link.className = ''; button.textContent = short(name) })
  }
  return el('span', { class: 'named' }, link, button)
}

// facts are names and values, one beside the other.
export function facts(list) {
  return el('dl', { class: 'facts' }, list.filter(Boolean).map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]))
}

// card is a part of a page with a title.
export function card(title, ...children) {
  return el('section', { class: 'card' }, title ? el('h2', {}, title) : null, ...children)
}

// empty says that there is nothing, and what to do about it.
export function empty(what, ...then) {
  return el('p', { class: 'empty' }, el('b', {}, what), ' ', ...then)
}

// plural is a number of things.
export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`

// track is a line that is filled as far as something is used.
export function track(used, capacity) {
  const share = capacity > 0 ? used / capacity : used > 0 ? 1 : 0
  const fill = el('div', { class: 'used' + (used > capacity ? ' over' : share >= 0.9 ? ' high' : '') })
  fill.style.width = `${Math.min(100, share * 100)}%`
  return el('div', { class: 'track' }, fill)
}

// bar is how much of something is used.
export function bar(label, used, capacity) {
  return el('div', {
    class: 'bar', role: 'meter', 'aria-valuemin': 0, 'aria-valuemax': capacity, 'aria-valuenow': used,
    'aria-label': `${label}: ${number(used)} of ${number(capacity)} used`,
  },
  el('span', { class: 'class', title: label }, label),
  el('span', { class: 'amount' }, `${number(used)} / ${number(capacity)}`),
  track(used, capacity))
}

let fields = 0

// field is a labelled input; options are the values that are offered.
export function field(label, attributes = {}, options = null) {
  const id = `field-${++fields}`
  const list = options ? el('datalist', { id: `${id}-list` }, options.map((value) => el('option', { value }))) : null
  const input = el('input', { id, type: 'text', autocomplete: 'off', spellcheck: 'false', ...(options ? { list: `${id}-list` } : {}), ...attributes })
  return { input, node: el('div', { class: 'field' }, el('label', { for: id }, label), input, list), value: () => input.value.trim() }
}

// choice is a labelled list of values, or of [value, text].
export function choice(label, values, selected, change = () => {}) {
  const id = `field-${++fields}`
  const input = el('select', { id, change: () => change(input.value) }, values.map((one) => {
    const [value, text] = Array.isArray(one) ? one : [one, one]
    return el('option', { value, selected: value === selected }, text)
  }))
  return { input, node: el('div', { class: 'field' }, el('label', { for: id }, label), input), value: () => input.value }
}

// area is a labelled text of many lines.
export function area(label, value = '', attributes = {}) {
  const id = `field-${++fields}`
  const input = el('textarea', { id, rows: 4, spellcheck: 'false', ...attributes })
  input.value = value
  return { input, node: el('div', { class: 'field wide' }, el('label', { for: id }, label), input), value: () => input.value.trim() }
}

// folded is a line that shows more when it is opened, made only then.
export function folded(line, make, attributes = {}) {
  const open = () => { if (node.open && node.childElementCount === 1) node.append(...present([make()])) }
  const node = el('details', { ...attributes, toggle: open }, el('summary', {}, line))
  return node
}

// asking is a form that leads to the address that its fields say, or says what is wrong with them.
export function asking(fieldsOf, action, address, ...beside) {
  const problem = el('p', { class: 'error', role: 'alert' })
  const go = async (event) => {
    event.preventDefault()
    try {
      location.hash = await address(...fieldsOf.map((one) => one.value()))
    } catch (error) {
      show(problem, named(error.message))
    }
  }
  return el('form', { class: 'form card', submit: go, input: () => show(problem) }, fieldsOf.map((one) => one.node),
    el('div', { class: 'field' }, el('button', { type: 'submit', class: 'primary' }, action), beside), problem)
}

// filtering is a form with the filters of a page, which are in its address.
export function filtering(page, given, parts) {
  const count = Object.keys(given).length
  const values = Object.entries(given).map(([name, value]) => `${name} ${value}`).join(', ')
  return el('details', { class: 'filters', open: count > 0 }, el('summary', {}, count ? `Filters: ${values}` : 'Filters'),
    asking(parts.map(([, one]) => one), 'Filter', (...told) => withQuery(page, Object.fromEntries(parts.map(([name], i) => [name, told[i]]))),
      ' ', el('a', { href: page, class: 'button' }, 'Clear')))
}

// form asks run when it is sent, and shows what it answers or what is wrong.
export function form(fieldsOf, action, run) {
  const result = el('div', { 'aria-live': 'polite' })
  const go = el('button', { type: 'submit', class: 'primary' }, action)
  const node = el('form', {
    class: 'form', input: () => result.querySelector('.error')?.remove(), submit: async (event) => {
      event.preventDefault()
      go.disabled = true
      try {
        show(result, await run())
      } catch (error) {
        if (error.name !== 'AbortError') show(result, failure(error))
      }
      go.disabled = false
    },
  }, fieldsOf.map((one) => one.node), el('div', { class: 'field' }, go))
  return { node: el('div', {}, node, result), run: () => node.requestSubmit() }
}
