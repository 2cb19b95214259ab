// The keyboard: / searches, g and a letter opens a page, [ and ] go through time.

const typing = (target) => target.closest?.('input, textarea, select, [contenteditable], dialog[open]')

// start listens. Pages are addresses by letter; actions are functions by key.
export function start(pages, actions) {
  let waiting = 0 // until when a letter after g counts
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || typing(event.target)) return
    if (Date.now() < waiting && pages[event.key]) {
      waiting = 0
      event.preventDefault()
      location.hash = pages[event.key]
    } else if (event.key === 'g') {
      waiting = Date.now() + 1500
    } else if (actions[event.key]) {
      event.preventDefault()
      actions[event.key]()
    }
  })
}
