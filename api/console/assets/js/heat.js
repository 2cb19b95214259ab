// A heat map of trees on canvases: a cell for each, from empty to full, and one
// with a mark if more is used than there is.

import { el, number, percent, show } from './dom.js'
import { colour } from './theme.js'

const steps = 6 // of the colour scale
const gap = 1

// heat draws cells, in columns as /audit/fleet answers them, on a canvas for each
// group: { path, of }, path: the names of what it is in, of: numbers of cells. Open is
// called with the number of the cell that was chosen.
export function heat(cells, groups, open) {
  const status = el('div', { class: 'heat-status', role: 'status' }, 'Point at a cell, or use the arrow keys.')
  const size = groups.length > 1 ? sizeFor(groups.length * 120, cells.roots.length) : 0
  return el('div', {}, nested(cells, groups, 0, (group) => heatOf(cells, group, size, status, open)), el('div', { class: 'row heat-foot' }, status, legend()))
}

// nested shows what is in the domains of a level, those that have other domains with how full they are.
function nested(cells, groups, level, make) {
  const parts = [...Map.groupBy(groups, ({ path }) => path[level] ?? '')].map(([name, list]) => (list.length === 1 && list[0].path.length <= level + 1
    ? make(list[0]) : el('section', { class: 'heat-domain' }, title(name || 'here', list.flatMap((group) => group.of), cells), nested(cells, list, level + 1, make))))
  return el('div', { class: groups.length > 1 ? 'heat-groups' : null }, parts)
}

// title is the name of a group, how many trees it has, and how much of them is used.
function title(name, of, cells) {
  const sum = (list) => of.reduce((n, i) => n + list[i], 0)
  const [used, capacity] = [sum(cells.used), sum(cells.capacity)]
  return el('h3', {}, name, el('span', { class: 'soft' }, ` ${number(of.length)}${capacity > 0 ? ` · ${percent(used / capacity)}` : ''}`))
}

function heatOf(cells, { path, of }, size, status, open) {
  const canvas = el('canvas', {
    class: 'heat', tabindex: 0, role: 'application', 'aria-roledescription': 'heat map',
    'aria-label': `${number(of.length)} trees ${path.length ? `of ${path.join(' › ')} ` : ''}by how full they are of ${cells.class}. Arrow keys move, Enter opens.`,
  })
  const tip = el('div', { class: 'tip', hidden: true })
  const shape = { columns: 1, size: 10 }
  let current = -1

  const draw = () => {
    if (!canvas.isConnected) return
    const width = canvas.parentNode.clientWidth
    shape.size = size || sizeFor(width, of.length)
    shape.columns = Math.max(1, Math.floor((width + gap) / (shape.size + gap)))
    paint(canvas, shape, cells, of, current)
  }

  function at(event) {
    const x = Math.floor(event.offsetX / (shape.size + gap))
    const y = Math.floor(event.offsetY / (shape.size + gap))
    const i = y * shape.columns + x
    return x < shape.columns && i < of.length ? i : -1
  }

  function choose(i) {
    if (i === current) return
    current = i
    draw()
    tip.hidden = i < 0
    if (i < 0) return
    show(status, el('b', {}, cells.names[of[i]]), ` · ${words(cells, of[i])}`)
    show(tip, el('b', {}, cells.names[of[i]]), el('br'), words(cells, of[i]))
    const width = canvas.parentNode.clientWidth
    const x = (i % shape.columns) * (shape.size + gap)
    tip.style.left = `${Math.max(0, Math.min(x, width - tip.offsetWidth))}px`
    tip.style.top = `${(Math.floor(i / shape.columns) + 1) * (shape.size + gap) + 6}px`
  }

  canvas.addEventListener('mousemove', (event) => choose(at(event)))
  canvas.addEventListener('mouseleave', () => choose(-1))
  canvas.addEventListener('blur', () => choose(-1))
  canvas.addEventListener('click', (event) => { const i = at(event); if (i >= 0) open(of[i]) })
  canvas.addEventListener('keydown', (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -shape.columns, ArrowDown: shape.columns, Home: -Infinity, End: Infinity }[event.key]
    if (move !== undefined) {
      event.preventDefault()
      choose(current < 0 ? 0 : Math.max(0, Math.min(of.length - 1, current + move)))
    } else if (event.key === 'Enter' && current >= 0) open(of[current])
    else if (event.key === 'Escape') choose(-1)
  })
  const node = el('div', { class: 'heat-box' }, canvas, tip)
  new ResizeObserver(draw).observe(node)
  return path.length ? el('section', {}, title(path.at(-1), of, cells), node) : node
}

function words(cells, i) {
  const [used, capacity] = [cells.used[i], cells.capacity[i]]
  const share = capacity > 0 ? ` (${percent(used / capacity)})` : ''
  const over = used > capacity ? `, ${number(used - capacity)} over capacity` : ''
  const many = cells.providers[i] > 1 ? `, ${number(cells.providers[i])} providers` : ''
  return `${number(used)} of ${number(capacity)} ${cells.class} used${share}${over}${many}`
}

// sizeFor is the size of the cells: large if they are few.
const sizeFor = (width, count) => Math.max(4, Math.min(30, Math.floor(Math.sqrt((width * 260) / Math.max(1, count))) - gap))

function paint(canvas, { columns, size }, cells, of, current) {
  const scale = devicePixelRatio || 1
  const count = of.length
  const width = Math.min(columns, count) * (size + gap)
  const height = Math.ceil(count / columns) * (size + gap)
  canvas.width = Math.max(1, width * scale)
  canvas.height = Math.max(1, height * scale)
  canvas.style.width = `${width}px`
  canvas.style.height = `${height}px`
  const pen = canvas.getContext('2d')
  pen.scale(scale, scale)
  const colours = scaleOf()
  const [over, mark] = [colour('over'), colour('surface')]
  for (let i = 0; i < count; i++) {
    const x = (i % columns) * (size + gap)
    const y = Math.floor(i / columns) * (size + gap)
    const [used, capacity] = [cells.used[of[i]], cells.capacity[of[i]]]
    const isOver = used > capacity
    pen.fillStyle = isOver ? over : colours[stepOf(capacity > 0 ? used / capacity : 0)]
    pen.fillRect(x, y, size, size)
    if (isOver && size >= 4) {
      pen.fillStyle = mark
      pen.fillRect(x + size / 2 - Math.max(1, size / 8), y + size / 2 - Math.max(1, size / 8), Math.max(2, size / 4), Math.max(2, size / 4))
    }
  }
  if (current < 0) return
  pen.strokeStyle = colour('text')
  pen.lineWidth = 2
  pen.strokeRect((current % columns) * (size + gap) - 0.5, Math.floor(current / columns) * (size + gap) - 0.5, size + 1, size + 1)
}

const stepOf = (share) => Math.min(steps - 1, share <= 0 ? 0 : 1 + Math.floor(Math.min(0.9999, share) * (steps - 1)))

const scaleOf = () => Array.from({ length: steps }, (_, i) => colour(`heat-${i}`))

function legend() {
  const swatch = (name, text) => [el('span', { class: `swatch ${name}` }), text]
  return el('div', { class: 'legend' }, swatch('heat-0', 'empty'), [1, 2, 3, 4].map((i) => swatch(`heat-${i}`, '')), swatch('heat-5', 'full'), swatch('heat-over', 'over capacity'))
}
