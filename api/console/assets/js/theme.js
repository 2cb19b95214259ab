// Light or dark: as the system has it, or as the reader chose.

const key = 'allot-theme'
const order = ['system', 'light', 'dark']
const texts = { system: 'Colours: system', light: 'Colours: light', dark: 'Colours: dark' }

let chosen = localStorage.getItem(key) ?? 'system'

// start lets a button change the theme, and calls changed when the colours of
// canvases are no longer right.
export function start(button, changed) {
  const apply = () => {
    if (chosen === 'system') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = chosen
    button.textContent = { system: '◐', light: '○', dark: '●' }[chosen]
    button.setAttribute('aria-label', texts[chosen])
    button.title = texts[chosen]
  }
  button.addEventListener('click', () => {
    chosen = order[(order.indexOf(chosen) + 1) % order.length]
    localStorage.setItem(key, chosen)
    apply()
    changed()
  })
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed)
  apply()
}

// colour is the value of a variable of the style sheet.
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
