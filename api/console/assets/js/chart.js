// Usage over time: a chart for each class, as their amounts have nothing in common.

import { byImportance, el, number, time } from './dom.js'
import { table } from './table.js'
import { colour } from './theme.js'

const height = 150
const maxCharts = 12

// usage draws a series, and has it as a table, too.
export function usage(points, file) {
  const classes = [...new Set(points.flatMap((p) => Object.keys(p.used)))].sort(byImportance)
  if (classes.length === 0) return el('p', { class: 'soft' }, 'Nothing was used in this time.')
  return el('div', {},
    el('div', { class: 'charts' }, classes.slice(0, maxCharts).map((name) => usageOf(name, points))),
    classes.length > maxCharts ? el('p', { class: 'soft' }, `${classes.length - maxCharts} more classes are in the figures only.`) : null,
    figures(classes, points, file))
}

function usageOf(name, points) {
  const last = points.at(-1)
  const lines = [{ label: 'used', values: points.map((p) => p.used[name] ?? 0), stroke: 'fill', shade: true }]
  if (points.some((p) => p.capacity?.[name] !== undefined)) {
    lines.push({ label: 'capacity', values: points.map((p) => p.capacity?.[name] ?? null), stroke: 'soft', dash: [4, 4] })
  }
  const title = [el('b', {}, name), ` ${number(last.used[name] ?? 0)}`, last.capacity?.[name] === undefined ? null : ` of ${number(last.capacity[name])}`]
  return chart(title, `Usage of ${name} over time; the figures below have it as a table`, points.map((p) => p.time), lines)
}

// chart is one picture of lines over time. Their colours are variables of the
// style sheet.
export function chart(title, label, times, lines, options = {}) {
  const box = el('div', { class: 'chart', role: 'img', 'aria-label': label })
  requestAnimationFrame(() => draw(box, times, lines, options))
  return el('figure', {}, el('figcaption', {}, title), box)
}

function draw(box, times, lines, { bars = false }) {
  if (!box.isConnected) return
  const grid = { stroke: colour('line'), width: 1 }
  const axis = { stroke: colour('soft'), grid, ticks: { show: false }, font: '11px system-ui' }
  const paths = bars ? window.uPlot.paths.bars({ size: [0.7, 12] }) : window.uPlot.paths.stepped({ align: 1 })
  const plot = new window.uPlot({
    width: box.clientWidth, height, legend: { show: false }, cursor: { show: false },
    scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
    axes: [{ ...axis, size: 26, values: (_, ticks, __, ___, step) => ticks.map((at) => tick(at, step)) }, { ...axis, size: 58, values: (_, ticks) => ticks.map(compact) }],
    series: [{}, ...lines.map((one) => ({
      label: one.label, stroke: colour(one.stroke), fill: one.shade ? `${colour(one.stroke)}${bars ? '' : '33'}` : undefined,
      dash: one.dash, width: bars ? 0 : one.dash ? 1 : 2, paths, points: { show: false },
    }))],
  }, [times.map((at) => Date.parse(at) / 1000), ...lines.map((one) => one.values)], box)
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height })).observe(box)
}

const days = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })
const minutes = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const seconds = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })

// tick is a time on an axis, as exactly as the distance of the times asks for.
const tick = (at, step) => (step >= 86400 ? days : step >= 60 ? minutes : seconds).format(new Date(at * 1000))

const compacts = new Intl.NumberFormat(undefined, { notation: 'compact' })
const compact = (n) => (n === null ? '' : compacts.format(n))

function figures(classes, points, file) {
  const rows = points.filter((p, i) => i === 0 || i === points.length - 1 || classes.some((name) => p.used[name] !== points[i - 1].used[name] || p.capacity?.[name] !== points[i - 1].capacity?.[name]))
  const columns = [{ title: 'Time', value: (p) => p.time, show: (p) => time(p.time) }, { title: 'Sequence', number: true, value: (p) => p.sequence }]
  for (const name of classes) {
    columns.push({ title: name, number: true, value: (p) => p.used[name] ?? 0 })
    if (points.some((p) => p.capacity?.[name] !== undefined)) columns.push({ title: `${name} capacity`, number: true, value: (p) => p.capacity?.[name] })
  }
  return el('details', {}, el('summary', {}, 'The figures'), table({ label: 'Usage over time', file, columns, rows }))
}
