// The moment that is shown: now, which moves on, or a sequence of the past.

import { el, number, show, time } from './dom.js'

const slider = document.getElementById('slider')
const label = document.getElementById('label')
const nowButton = document.getElementById('now')
const earlier = document.getElementById('earlier')
const later = document.getElementById('later')

let past = null // the sequence that is shown; null: now
let newest = { sequence: 1, time: null }
let changed = () => {}
let timeOf = async () => null
let pending = 0

// at is what questions are asked with: empty for now.
export const at = () => past ?? ''

// sequence is the one that is shown.
export const sequence = () => past ?? newest.sequence

export const isNow = () => past === null

export const newestSequence = () => newest.sequence

// start calls onChange whenever somebody chooses another moment; lookUp finds
// the time of a sequence.
export function start(onChange, lookUp) {
  changed = onChange
  timeOf = lookUp
  slider.addEventListener('input', () => choose(Number(slider.value)))
  nowButton.addEventListener('click', () => choose(null))
  earlier.addEventListener('click', () => choose(Math.max(1, sequence() - 1)))
  later.addEventListener('click', () => choose(sequence() + 1))
}

// choose shows a sequence of the past; null, or the newest one, shows now.
export function choose(wanted) {
  set(wanted)
  clearTimeout(pending)
  pending = setTimeout(changed, 60) // while the slider is dragged
}

// set is choose without telling anybody.
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
  show(label, isNow() ? 'now · ' : 'the past · ', el('b', {}, `#${number(shown)}`), ...(when ? [' · ', time(when)] : []))
}
