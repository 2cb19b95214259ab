// Pages by their address: #/PAGE/ARGUMENT...?at=MOMENT

import { parse, setAt } from './address.js'
import * as api from './api.js'
import { el, failure, show } from './dom.js'
import * as keys from './keys.js'
import * as moment from './moment.js'
import * as ask from './pages/ask.js'
import * as candidates from './pages/candidates.js'
import * as compare from './pages/compare.js'
import * as consumption from './pages/consumption.js'
import * as held from './pages/held.js'
import * as limits from './pages/limits.js'
import * as lists from './pages/lists.js'
import * as orphans from './pages/orphans.js'
import * as overview from './pages/overview.js'
import * as projects from './pages/projects.js'
import * as providers from './pages/providers.js'
import * as record from './pages/record.js'
import * as rejected from './pages/rejected.js'
import * as search from './pages/search.js'
import * as subject from './pages/subject.js'
import * as timeline from './pages/timeline.js'
import * as topologies from './pages/topologies.js'
import * as verification from './pages/verification.js'
import * as whatIf from './pages/what-if.js'
import * as why from './pages/why.js'
import * as suggest from './suggest.js'
import * as theme from './theme.js'

const byId = (id) => document.getElementById(id)
const [main, badge, login, refused, tokenField, leave, away, help] = ['main', 'badge', 'login', 'refused', 'token', 'leave', 'away', 'help'].map(byId)

const pages = {
  overview, timeline, providers, projects, subject, record, held, ask, candidates, why, 'what-if': whatIf, orphans, rejected, reservations: lists, preferences: lists, limits, baremetal: lists,
  compare, consumption, verification, search, topologies,
}

// under is the entry of the navigation that a page belongs to.
const under = { subject: '', record: 'timeline', candidates: 'ask', why: 'ask', 'what-if': 'ask', orphans: 'ask', rejected: 'ask', reservations: 'ask', limits: 'ask', preferences: 'ask', baremetal: 'ask', topologies: 'ask', consumption: 'projects' }

const letters = { o: '#/overview', t: '#/timeline', p: '#/providers', j: '#/projects', w: '#/held', a: '#/ask', c: '#/compare', v: '#/verification' }

let page = {} // what the page that is shown wants to hear
let failed = false // the page that is shown could not be
let ending = new AbortController()

// open shows the page of the address.
async function open() {
  const address = parse()
  const name = pages[address.name] ? address.name : 'overview'
  ending.abort()
  ending = new AbortController()
  const { signal } = ending
  page = {}
  failed = false
  markNavigation(name, address)
  main.setAttribute('aria-busy', 'true')
  try {
    const opened = await pages[name].render(main, address, signal)
    if (!signal.aborted) page = opened
  } catch (error) {
    if (!signal.aborted) fail(error)
  }
  if (signal.aborted) return
  const title = main.querySelector('h1')
  document.title = `${title?.textContent ?? name} · Allot`
  if (present[name] && !moment.isNow()) title?.after(el('p', { class: 'notice' }, `The moment above does not apply here: ${present[name]}`))
  main.removeAttribute('aria-busy')
}

// present says of pages, or parts of them, that they are not of the past that is shown.
const present = {
  overview: 'what is unusual, but for what is over capacity, is so now.', verification: 'the disk, and what was found on it, are those of now.', rejected: 'rejected commands are all that are kept.', reservations: 'these are reservations of now; those of the past are in the histories of their consumers.',
  limits: 'claims and limits are tried now.', compare: 'a comparison has two moments of its own.', consumption: 'a month is shown whole, or up to now.',
}

function markNavigation(name, { rest }) {
  const own = under[name] ?? name
  const current = name === 'subject' ? { provider: 'providers', project: 'projects', user: 'projects' }[rest[0]] ?? '' : own
  for (const link of document.querySelectorAll('nav a')) {
    if (link.getAttribute('href') === `#/${current}`) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
}

// fail says why a page cannot be shown, below what is there already.
function fail(error) {
  failed = true
  main.querySelectorAll('.failure').forEach((old) => old.remove())
  main.append(el('div', { class: 'card failure' }, failure(error),
    el('button', { type: 'button', click: open }, 'Try again'),
    error.status === 403 ? [' ', el('button', { type: 'button', click: async () => { await askToken(''); location.reload() } }, 'Use another token')] : null))
}

// moved is that another moment was chosen: it becomes a part of the address.
function moved() {
  setAt(moment.isNow() ? null : moment.at())
  open()
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

// watch keeps the newest record known, for ever. While the server is away it
// says so, and when it is back, a page that had failed is shown again.
async function watch() {
  for (let pause = 500; ; pause = Math.min(2 * pause, 10_000)) {
    try {
      const status = await api.get('status')
      back()
      moment.grown(status.sequence, status.time)
      showBadge(status)
      pause = 500
      await api.follow(status.sequence + 1, (record) => {
        moment.grown(record.sequence, record.time)
        if (moment.isNow()) page.record?.(record)
      })
    } catch (error) {
      gone(error)
    }
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}

function gone(error) {
  badge.className = 'badge bad'
  badge.textContent = error.status === 403 ? 'No rights' : 'No connection'
  if (error.status === 403) return // the page says so, and asks for another token
  show(away, el('b', {}, error.isAway ? 'The server is away.' : 'The server does not answer as it should.'), ` ${error.message} What is shown may be old. Trying again…`)
  away.hidden = false
}

function back() {
  const wasAway = !away.hidden
  away.hidden = true
  if (wasAway || failed && main.querySelector('.failure')) open()
}

function showBadge(status) {
  const { className, text } = verification.verdict(status)
  badge.className = `badge ${className}`
  badge.textContent = text
}

// timeOf remembers the times of sequences: they do not change.
const times = new Map()
async function timeOf(sequence) {
  if (!times.has(sequence)) times.set(sequence, (await api.get('status', { at: sequence })).time)
  return times.get(sequence)
}

// resolve finds the sequence of a moment in any form that the API takes.
const resolve = async (at) => (await api.get('status', { at })).sequence

// takeAddress takes the moment of the address: it may be a sequence or a time. Links
// do not name it, so it stays as it is while one walks around.
async function takeAddress() {
  const { at } = parse()
  if (at !== null && at !== String(moment.at())) {
    await moment.take(at)
    setAt(moment.isNow() ? null : moment.at())
  } else if (at === null) {
    moment.complain('')
    if (!moment.isNow()) setAt(moment.at())
  }
}

function listen() {
  login.addEventListener('cancel', (event) => event.preventDefault())
  leave.hidden = !api.token()
  leave.addEventListener('click', () => { api.forgetToken(); location.reload() })
  const field = byId('q')
  suggest.start(byId('search'), field, byId('matches'))
  theme.start(byId('theme'), open)
  const menu = byId('menu')
  const unfold = (open) => { menu.setAttribute('aria-expanded', menu.closest('header').classList.toggle('open', open)) }
  menu.addEventListener('click', () => unfold())
  byId('keys').addEventListener('click', () => help.showModal())
  keys.start(letters, {
    '/': () => { field.focus(); field.select() }, '?': () => help.showModal(), '[': () => moment.step(-1), ']': () => { if (!moment.isNow()) moment.step(1) }, n: () => moment.choose(null),
  })
  addEventListener('hashchange', async () => {
    moment.settle()
    unfold(false)
    await takeAddress()
    open()
    main.focus({ preventScroll: true })
    scrollTo(0, 0)
  })
}

async function start() {
  api.onUnauthorized(askToken)
  listen()
  moment.start(moved, timeOf, resolve)
  try {
    const status = await api.get('status')
    moment.grown(status.sequence, status.time)
    showBadge(status)
    await takeAddress()
  } catch (error) {
    gone(error)
  }
  setInterval(() => api.get('status').then(showBadge).catch(() => {}), 30_000) // watch tells of an error
  await open()
  watch()
}

start()
