// The moment that is shown: now, which moves on, or a sequence of the past. It is
// chosen by sequence with the slider, and by time with the picker.

import { el, localTime, show, time } from './dom.js'

const slider = document.getElementById('slider')
const label = document.getElementById('label')
const nowButton = document.getElementById('now')
const earlier = document.getElementById('earlier')
const later = document.getElementById('later')
const picker = document.getElementById('picker')
const pick = document.getElementById('pick')
const problem = document.getElementById('moment-problem')

let past = null // the sequence that is shown; null: now
let newest = { sequence: 1, time: null }
let changed = () => {}
let timeOf = async () => null
let find = async () => null
let pending = 0

// at is what questions are asked with: empty for now.
export const at = () => past ?? ''

// sequence is the one that is shown.
export const sequence = () => past ?? newest.sequence

export const isNow = () => past === null

export const newestSequence = () => newest.sequence

// start calls onChange when another moment is chosen; lookUp finds
// the time of a sequence, and resolve the sequence of any documented form.
export function start(onChange, lookUp, resolve) {
  changed = onChange
  timeOf = lookUp
  find = resolve
  slider.addEventListener('input', () => choose(Number(slider.value)))
  nowButton.addEventListener('click', () => choose(null))
  earlier.addEventListener('click', () => step(-1))
  later.addEventListener('click', () => step(1))
  pick.addEventListener('submit', async (event) => {
    event.preventDefault()
    if (picker.value && await take(new Date(picker.value).toISOString())) changed()
  })
}

// step goes some commits on or back.
export function step(by) {
  choose(Math.max(1, sequence() + by))
}

// choose shows a sequence of the past; null, or the newest one, shows now.
export function choose(wanted) {
  complain('')
  const before = past
  set(wanted)
  if (past === before) return
  clearTimeout(pending)
  pending = setTimeout(changed, 60) // while the slider is dragged
}

// settle forgets a choice that was not told yet: a page is about to be
// shown anyway.
export const settle = () => clearTimeout(pending)

// tell says that another moment was taken.
export const tell = () => changed()

// take chooses a moment that is written in any form that the API takes: a
// sequence or an RFC 3339 time. If it is none, it says so and keeps the moment.
export async function take(text) {
  try {
    const found = await find(text)
    complain('')
    set(found)
    return true
  } catch (error) {
    complain(`${text} cannot be shown: ${error.message}`)
    return false
  }
}

// complain says what is wrong with a moment; empty: nothing any more.
export function complain(text) {
  problem.textContent = text
  problem.hidden = !text
}

// set is choose without onChange.
export function set(wanted) {
  past = wanted === null || wanted >= newest.sequence ? null : Math.max(1, wanted)
  render()
}

// grown is that the log has another newest record.
export function grown(to, when) {
  if (to < newest.sequence) return
  newest = { sequence: to, time: when }
  render()
}

async function render() {
  slider.max = newest.sequence
  slider.value = sequence()
  nowButton.setAttribute('aria-pressed', isNow())
  earlier.disabled = sequence() <= 1
  later.disabled = isNow()
  document.body.classList.toggle('past', !isNow())
  const shown = sequence()
  slider.setAttribute('aria-valuetext', isNow() ? `now, sequence ${shown}` : `sequence ${shown}`)
  const when = isNow() ? newest.time : await timeOf(shown).catch(() => null)
  if (shown !== sequence()) return
  if (when && document.activeElement !== picker) picker.value = localTime(when)
  show(label, isNow() ? 'now · ' : 'the past · ', el('b', {}, `#${shown}`), ...(when ? [' · ', time(when)] : []))
}
