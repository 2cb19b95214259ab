// Elements are made of data with textContent only: names come from clients
// and may hold anything.

// el makes an element. Attributes that are functions are listeners, null and
// false ones are left out; children that are null are, too.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(name, value)
    else if (value === true) node.setAttribute(name, '')
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value)
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined))
  return node
}

// show replaces what an element holds.
export function show(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined))
}

const times = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

// time is a moment for people; the whole of it is in its title.
export function time(text) {
  return el('time', { datetime: text, title: text }, times.format(new Date(text)))
}

export const number = (n) => Number(n).toLocaleString()

// json is a value for people who read JSON.
export function json(value) {
  return el('pre', {}, JSON.stringify(value, null, 2))
}

// subject links to the page of something with a history.
export function subject(of, name, text = name) {
  return el('a', { href: subjectLink(of, name) }, text)
}

export function subjectLink(of, name) {
  return `#/subject/${encodeURIComponent(of)}/${encodeURIComponent(name)}`
}

// bar is how much of something is used.
export function bar(label, used, capacity) {
  const share = capacity > 0 ? used / capacity : used > 0 ? 1 : 0
  const fill = el('div', { class: 'used' + (share >= 1 ? ' full' : share >= 0.8 ? ' high' : '') })
  fill.style.width = `${Math.min(100, share * 100)}%`
  return el('div', {
    class: 'bar', role: 'meter', 'aria-valuemin': 0, 'aria-valuemax': capacity, 'aria-valuenow': used,
    'aria-label': `${label}: ${number(used)} of ${number(capacity)} used`,
  },
  el('span', { class: 'class', title: label }, label),
  el('span', { class: 'amount' }, `${number(used)} / ${number(capacity)}`),
  el('div', { class: 'track' }, fill))
}
