// Rejected commands, why they were rejected, and how they would be decided now.

import { withQuery } from '../address.js'
import * as api from '../api.js'
import { data } from '../difference.js'
import { card, el, empty, field, named, show, subject, time } from '../dom.js'
import { table } from '../table.js'

const filters = ['command_id', 'actor', 'command', 'code', 'project', 'consumer', 'provider', 'since', 'until']
const page = 200

export async function render(main, { query }, signal) {
  const given = Object.fromEntries(filters.filter((name) => query[name]).map((name) => [name, query[name]]))
  const fields = filters.map((name) => [name, field(name.replace('_', ' '), { value: given[name] ?? '' })])
  const result = el('div')
  show(main, el('h1', {}, 'Rejected commands'), el('details', { class: 'card filters', open: Object.keys(given).length > 0 }, el('summary', {}, 'Filters'), el('form', {
    class: 'form', submit: (event) => { event.preventDefault(); location.hash = withQuery('#/rejected', Object.fromEntries(fields.map(([name, one]) => [name, one.value()]))) },
  }, fields.map(([, one]) => one.node), el('div', { class: 'field' }, el('button', { type: 'submit', class: 'primary' }, 'Filter'), ' ', el('a', { class: 'button', href: '#/rejected' }, 'Clear')))), result)
  const ask = async (before) => {
    const { rejections } = await api.get('rejections', { ...given, before, limit: page }, signal)
    return { rows: rejections, more: rejections.length === page ? () => ask(rejections.at(-1).time) : null }
  }
  const first = await ask('')
  show(result, card(null, table({
    label: 'Rejected commands', file: 'rejected', ...first, nothing: empty('No rejected command fits.', 'They are kept for a week, and 64 MiB of them.'),
    columns: [
      { title: 'Time', value: (r) => r.time, show: (r) => time(r.time) }, { title: 'Actor', value: (r) => r.actor }, { title: 'Command', value: (r) => r.command },
      { title: 'Why', long: true, value: (r) => r.rejection.message, show: (r) => [named(r.rejection.message), about(r)] }, { title: 'Code', value: (r) => r.rejection.code },
      { title: 'Details', value: (r) => r.command_id, show: details },
    ],
  })))
  return {}
}

const about = (r) => ['provider', 'consumer', 'node'].filter((of) => r.rejection.facts?.[of] && !r.rejection.message.includes(r.rejection.facts[of])).map((of) => el('div', { class: 'small' }, `${of} `, subject(of, r.rejection.facts[of])))

// details show the command.
function details(r) {
  const node = el('details', { toggle: () => { if (node.open && node.childElementCount === 1) node.append(data({ command_id: r.command_id, place: r.place, body: r.body, facts: r.rejection.facts })) } }, el('summary', {}, 'show'))
  return node
}
