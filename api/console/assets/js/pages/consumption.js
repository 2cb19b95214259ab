// What was held for how long, in a month: for bills.

import { withQuery } from '../address.js'
import * as api from '../api.js'
import { chart } from '../chart.js'
import { asking, byImportance, card, el, empty, field, number, show, subject, time } from '../dom.js'
import { table } from '../table.js'

const maxCharts = 6

export async function render(main, { query }, signal) {
  const month = /^\d{4}-\d\d$/.test(query.month ?? '') ? query.month : new Date().toISOString().slice(0, 7)
  const project = query.project ?? ''
  const fields = [field('Month (UTC)', { type: 'month', value: month, required: true }), field('Project', { value: project, placeholder: 'all' })]
  show(main, el('h1', {}, `Consumption in ${month}`), asking(fields, 'Show', (when, of) => withQuery('#/consumption', { month: when, project: of })))
  const span = await spanOf(month, signal)
  if (!span) {
    main.append(empty('There is no record of this month.', 'Choose another one.'))
    return {}
  }
  const asked = { ...span, project }
  const [days, bill] = await Promise.all([api.get('consumption', { ...asked, by: 'day,class', limit: 10_000 }, signal), page({ ...asked, by: 'project,class' }, signal)])
  main.append(card(null, el('p', { class: 'soft' }, 'From ', time(days.from), ' to ', time(days.to), '. Hours are amounts times hours: 2 VCPU held for 3 hours are 6.')),
    card('Each day', charts(month, days.rows)), card('Each project', rows(bill, `consumption-${month}`)))
  return {}
}

// spanOf is as much of a month as there are records of; null: none.
async function spanOf(month, signal) {
  const [year, number] = month.split('-').map(Number)
  const [begin, end] = [new Date(Date.UTC(year, number - 1)), new Date(Date.UTC(year, number))]
  const first = (await api.get('status', { at: 1 }, signal)).time
  if (new Date(first) >= end || begin > new Date()) return null
  return { from: begin < new Date(first) ? first : begin.toISOString(), to: end > new Date() ? '' : end.toISOString() }
}

function charts(month, list) {
  const classes = [...new Set(list.map((row) => row.class))].sort(byImportance)
  if (classes.length === 0) return empty('Nothing was held.')
  const days = []
  for (let at = new Date(month); at.toISOString().startsWith(month); at = new Date(+at + 86400_000)) days.push(at.toISOString().slice(0, 10))
  return [el('div', { class: 'charts' }, classes.slice(0, maxCharts).map((name) => {
    const hours = new Map(list.filter((row) => row.class === name).map((row) => [row.day, Number(row.hours)]))
    const total = [...hours.values()].reduce((sum, one) => sum + one, 0)
    return chart([el('b', {}, name), ` ${number(total)} hours`], `Hours of ${name} each day; the table below has the sums`, days, [{ label: 'hours', values: days.map((day) => hours.get(day) ?? 0), stroke: 'fill', shade: true }], { bars: true })
  })), classes.length > maxCharts ? el('p', { class: 'soft' }, `${classes.length - maxCharts} more classes are in the table only.`) : null]
}

// page is a page of the bill, with what asks for the next one.
async function page(asked, signal) {
  const answer = await api.get('consumption', { ...asked, limit: 1000 }, signal)
  return { rows: answer.rows, more: answer.next ? () => page({ ...asked, to: answer.to, after: answer.next }, signal) : null }
}

const rows = (bill, file) => table({
  label: 'Consumption of each project', file, ...bill, nothing: empty('Nothing was held.'), columns: [
    { title: 'Project', value: (row) => row.project, show: (row) => (row.project ? subject('project', row.project) : 'none') },
    { title: 'Class', value: (row) => row.class },
    { title: 'Hours', number: true, value: (row) => Number(row.hours) },
    { title: 'Amount x ns', value: (row) => row.amount_ns },
  ],
})
