// Usage over time: a chart for each class, as their amounts have nothing in common.

import { el, number, time } from './dom.js'

const height = 170
const maxCharts = 12

// usage draws a series, and has it as a table, too.
export function usage(points) {
  const classes = [...new Set(points.flatMap((p) => Object.keys(p.used)))].sort()
  if (classes.length === 0) return el('p', { class: 'soft' }, 'Nothing was used in this time.')
  return el('div', {},
    el('div', { class: 'charts' }, classes.slice(0, maxCharts).map((name) => chart(name, points))),
    classes.length > maxCharts ? el('p', { class: 'soft' }, `${classes.length - maxCharts} more classes are in the figures only.`) : null,
    table(classes, points))
}

function chart(name, points) {
  const last = points.at(-1)
  const canvas = el('div', { class: 'chart', role: 'img', 'aria-label': `Usage of ${name} over time; the table below has the figures` })
  requestAnimationFrame(() => draw(canvas, name, points))
  return el('figure', {}, el('figcaption', {}, `${name}: ${number(last.used[name] ?? 0)}`, last.capacity?.[name] === undefined ? null : ` of ${number(last.capacity[name])}`), canvas)
}

function draw(canvas, name, points) {
  if (!canvas.isConnected) return
  const style = getComputedStyle(document.documentElement)
  const ink = style.getPropertyValue('--soft').trim()
  const grid = { stroke: style.getPropertyValue('--line').trim(), width: 1 }
  const axis = { stroke: ink, grid, ticks: grid, font: '11px system-ui' }
  const stepped = window.uPlot.paths.stepped({ align: 1 })
  const series = [{ label: 'used', stroke: style.getPropertyValue('--fill').trim(), fill: style.getPropertyValue('--fill').trim() + '33', width: 2, paths: stepped, points: { show: false } }]
  const data = [points.map((p) => Date.parse(p.time) / 1000), points.map((p) => p.used[name] ?? 0)]
  if (points.some((p) => p.capacity?.[name] !== undefined)) {
    series.push({ label: 'capacity', stroke: ink, dash: [4, 4], width: 1, paths: stepped, points: { show: false } })
    data.push(points.map((p) => p.capacity?.[name] ?? null))
  }
  const plot = new window.uPlot({
    width: canvas.clientWidth, height, legend: { show: false }, cursor: { show: false },
    scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } }, axes: [axis, { ...axis, size: 62 }], series: [{}, ...series],
  }, data, canvas)
  new ResizeObserver(() => plot.setSize({ width: canvas.clientWidth, height })).observe(canvas)
}

function table(classes, points) {
  const rows = points.filter((p, i) => i === 0 || i === points.length - 1 || classes.some((name) => p.used[name] !== points[i - 1].used[name]))
  return el('details', {}, el('summary', {}, 'The figures'), el('div', { class: 'scroll' }, el('table', {},
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Time'), classes.map((name) => el('th', { scope: 'col', class: 'number' }, name)))),
    el('tbody', {}, rows.map((p) => el('tr', {}, el('td', {}, time(p.time)), classes.map((name) => el('td', { class: 'number' },
      number(p.used[name] ?? 0) + (p.capacity?.[name] !== undefined ? ` of ${number(p.capacity[name])}` : '')))))))))
}
