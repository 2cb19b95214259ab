// Pages by their address: #/PAGE/ARGUMENT...?at=SEQUENCE

import * as api from './api.js'
import * as compare from './compare.js'
import { el, show, subject, subjectLink } from './dom.js'
import * as moment from './moment.js'
import * as providers from './providers.js'
import * as subjectPage from './subject.js'
import * as timeline from './timeline.js'
import * as verification from './verification.js'

const main = document.getElementById('main')
const badge = document.getElementById('badge')
const login = document.getElementById('login')
const refused = document.getElementById('refused')
const tokenField = document.getElementById('token')
const leave = document.getElementById('leave')

const pages = { timeline, providers, subject: subjectPage, compare, verification, search: { render: renderSearch } }

let page = {} // what the page that is shown wants to hear
let ending = new AbortController()

function parseAddress() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?')
  const [name, ...rest] = path.split('/').map((part) => { try { return decodeURIComponent(part) } catch { return part } })
  return { name: pages[name] ? name : 'timeline', rest: rest.filter(Boolean), at: new URLSearchParams(query).get('at') }
}

// open shows the page of the address.
async function open() {
  const { name, rest } = parseAddress()
  ending.abort()
  ending = new AbortController()
  const { signal } = ending
  page = {}
  for (const link of document.querySelectorAll('nav a')) {
    if (link.getAttribute('href') === `#/${name}`) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  document.title = `Allot · ${rest.length ? rest.join(' ') : name}`
  main.setAttribute('aria-busy', 'true')
  try {
    const opened = await pages[name].render(main, rest, signal)
    if (!signal.aborted) page = opened
  } catch (error) {
    if (!signal.aborted) main.append(el('p', { class: 'card error', role: 'alert' }, error.message))
  }
  if (!signal.aborted) main.removeAttribute('aria-busy')
}

// moved is that another moment was chosen: it becomes a part of the address.
function moved() {
  const path = location.hash.split('?')[0] || '#/timeline'
  history.replaceState(null, '', moment.isNow() ? path : `${path}?at=${moment.at()}`)
  open()
}

async function renderSearch(into, [text = ''], signal) {
  const { found } = await api.get('find', { q: text }, signal)
  if (found.length === 1) {
    location.replace(subjectLink(found[0].of, found[0].name))
    return {}
  }
  show(into, el('h1', {}, `Search: ${text}`), found.length === 0
    ? el('p', {}, 'Nothing is called so. A part of a provider’s name can be looked for on the page ', el('a', { href: '#/providers' }, 'Providers'), '.')
    : el('ul', {}, found.map((one) => el('li', {}, `${one.of.replace('_', ' ')} `, subject(one.of, one.name)))))
  return {}
}

// askToken shows the dialog until there is a token to try; questions that
// wait for it share it.
let asking = null
function askToken(message) {
  asking ??= new Promise((resolve) => {
    refused.textContent = message
    tokenField.value = ''
    login.showModal()
    login.addEventListener('close', () => {
      asking = null
      api.setToken(tokenField.value)
      leave.hidden = false
      resolve()
    }, { once: true })
  })
  return asking
}

// watch keeps the newest record known, for ever.
async function watch() {
  for (let pause = 500; ; pause = Math.min(2 * pause, 10_000)) {
    try {
      const status = await api.get('status')
      moment.grown(status.sequence, status.time)
      showBadge(status)
      await api.follow(status.sequence + 1, (record) => {
        pause = 500
        moment.grown(record.sequence, record.time)
        if (moment.isNow()) page.record?.(record)
      })
    } catch (error) {
      badge.className = 'badge bad'
      badge.textContent = 'No connection'
      badge.title = error.message
    }
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}

function showBadge(status) {
  const { className, text } = verification.verdict(status)
  badge.className = `badge ${className}`
  badge.textContent = text
  badge.title = ''
}

// timeOf remembers the times of sequences: they do not change.
const times = new Map()
async function timeOf(sequence) {
  if (!times.has(sequence)) times.set(sequence, (await api.get('status', { at: sequence })).time)
  return times.get(sequence)
}

async function start() {
  api.onUnauthorized(askToken)
  login.addEventListener('cancel', (event) => event.preventDefault())
  leave.hidden = !api.token()
  leave.addEventListener('click', () => { api.forgetToken(); location.reload() })
  document.getElementById('search').addEventListener('submit', (event) => {
    event.preventDefault()
    const text = document.getElementById('q').value.trim()
    if (text) location.hash = `#/search/${encodeURIComponent(text)}`
  })
  moment.start(moved, timeOf)
  try {
    const status = await api.get('status')
    moment.grown(status.sequence, status.time)
    showBadge(status)
    const { at } = parseAddress()
    if (/^[1-9][0-9]*$/.test(at ?? '')) moment.set(Number(at))
  } catch (error) {
    main.append(el('p', { class: 'card error', role: 'alert' }, error.message))
  }
  // Links do not name the moment: it stays as it is while one walks around.
  addEventListener('hashchange', () => {
    const { at } = parseAddress()
    if (at) moment.set(Number(at))
    else if (!moment.isNow()) history.replaceState(null, '', `${location.hash}?at=${moment.at()}`)
    open()
    main.focus({ preventScroll: false })
    scrollTo(0, 0)
  })
  setInterval(() => api.get('status').then(showBadge).catch(() => {}), 30_000)
  await open()
  watch()
}

start()
