// Rejected commands, and why they were rejected.

import * as api from '../api.js'
import { data } from '../difference.js'
import { card, el, empty, field, filtering, folded, show, time } from '../dom.js'
import { table } from '../table.js'
import { commands, sentence } from '../words.js'

const filters = ['command_id', 'actor', 'command', 'code', 'project', 'consumer', 'provider', 'since', 'until']
const page = 200

export async function render(main, { query }, signal) {
  const given = Object.fromEntries(filters.filter((name) => query[name]).map((name) => [name, query[name]]))
  const fields = filters.map((name) => [name, field(name.replace('_', ' '), { value: given[name] ?? '' }, name === 'command' ? commands : null)])
  const result = el('div')
  show(main, el('h1', {}, 'Rejected commands'), filtering('#/rejected', given, fields), result)
  const ask = async (before) => {
    const { rejections } = await api.get('rejections', { ...given, before, limit: page }, signal)
    return { rows: rejections, more: rejections.length === page ? () => ask(rejections.at(-1).time) : null }
  }
  show(result, card(null, table({
    label: 'Rejected commands', file: 'rejected', ...await ask(''), nothing: empty('No rejected command fits.', 'They are kept for a week, and 64 MiB of them.'),
    columns: [
      { title: 'Time', value: (r) => r.time, show: (r) => time(r.time) }, { title: 'Why', long: true, value: (r) => r.text, show: sentence },
      { title: 'Command', value: (r) => r.command }, { title: 'Code', value: (r) => r.rejection.code },
      { title: 'Details', value: (r) => r.command_id, show: (r) => folded('show', () => data({ command_id: r.command_id, place: r.place, body: r.body, facts: r.rejection.facts })) },
    ],
  })))
  return {}
}
