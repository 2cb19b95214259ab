// The search at the top: it suggests what has the text in its name while one
// types, and opens what was chosen.

import { linkTo } from './address.js'
import * as api from './api.js'
import { el, kindName, short, show } from './dom.js'
import * as moment from './moment.js'

const wait = 180 // ms after the last key

// start connects the form, its field and the list of suggestions.
export function start(form, field, list) {
  let pending = 0
  let current = -1
  let asking = new AbortController()

  function close() {
    list.hidden = true
    current = -1
    field.setAttribute('aria-expanded', 'false')
    field.removeAttribute('aria-activedescendant')
  }

  function mark(i) {
    const options = list.querySelectorAll('[role=option]')
    if (options.length === 0) return
    current = (i + options.length) % options.length
    options.forEach((option, n) => option.setAttribute('aria-selected', String(n === current)))
    field.setAttribute('aria-activedescendant', options[current].id)
    options[current].scrollIntoView({ block: 'nearest' })
  }

  async function suggest() {
    const text = field.value.trim()
    asking.abort()
    asking = new AbortController()
    if (!text) return close()
    try {
      const { matches } = await api.get('search', { q: text, limit: 8, at: moment.at() }, asking.signal)
      show(list, matches.map((one, i) => el('li', { role: 'option', id: `match-${i}`, 'aria-selected': 'false', mousedown: (event) => { event.preventDefault(); open(one) } },
        el('span', { class: 'kind' }, kindName(one.of)), el('span', { class: 'match' }, one.title || short(one.name, matches.map((other) => other.name))), one.title ? el('span', { class: 'uuid' }, short(one.name, matches.map((other) => other.name))) : null)))
      list.matches_ = matches
      list.hidden = matches.length === 0
      current = -1
      field.setAttribute('aria-expanded', String(matches.length > 0))
    } catch (error) {
      if (error.name !== 'AbortError') close()
    }
  }

  function open(one) {
    close()
    field.value = ''
    location.hash = linkTo('subject', one.of, one.name)
  }

  field.addEventListener('input', () => {
    clearTimeout(pending)
    pending = setTimeout(suggest, wait)
  })
  field.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      clearTimeout(pending) // a list that comes now would take away what is being chosen from
      asking.abort()
      mark(current + (event.key === 'ArrowDown' ? 1 : current < 0 ? 0 : -1))
    } else if (event.key === 'Escape') {
      close()
      field.blur()
    }
  })
  field.addEventListener('blur', close)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    clearTimeout(pending)
    asking.abort()
    const text = field.value.trim()
    if (current >= 0) open(list.matches_[current])
    else if (text) location.hash = linkTo('search', text)
    close()
  })
}

