// A project or a user: what they hold together, and by which consumers.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { bar, byImportance, card, el, empty, number, show, subject } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { consumersOf, happened, later, overTime } from './parts.js'

export async function render(main, { rest: [of, id] }, signal) {
  const query = { [of]: id }
  const [answer, { names }] = await Promise.all([api.get('owners', { ...query, limit: 1000, at: moment.at() }, signal), api.get('names', { ids: id.replaceAll(',', '') }, signal)])
  const held = later('Consumers', async () => card('Consumers', await consumersOf(query, `${of}-consumers`, empty('Nothing is held for it.'), signal)))
  const parts = [held, of === 'project' ? later('Limits', () => limits(id, signal)) : null,
    later('Usage over time', () => overTime(query, `${of}-usage`, signal)), later('What happened', () => happened(query, signal))].filter(Boolean)
  show(main, el('h1', {}, `${of} ${names[id] ?? id}`), card('Holds', answer.owners.length === 0
    ? empty('It holds nothing at this moment.', 'What happened to it is below.') : ownersTable(of, answer)), parts)
  await Promise.all(parts.map((part) => part.ready))
  return {}
}

// ownersTable has a row for each owner and a column for each class.
export function ownersTable(of, answer) {
  const classes = [...new Set(answer.owners.flatMap((o) => Object.keys(o.amounts)))].sort(byImportance)
  const columns = [
    of === 'project' ? null : { title: 'Project', value: (o) => o.project, show: (o) => subject('project', o.project) },
    of === '' ? { title: 'Users', number: true, value: (o) => o.users } : { title: 'User', value: (o) => o.user ?? '', show: (o) => subject('user', o.user ?? '') },
    of === '' ? null : { title: 'Type', value: (o) => o.type || 'unknown' },
    { title: 'Consumers', number: true, value: (o) => o.consumers },
    ...classes.map((name) => ({ title: name, number: true, value: (o) => o.amounts[name] ?? 0 })),
  ].filter(Boolean)
  return [table({ label: 'What they hold', file: of ? `${of}-holds` : 'projects', columns, rows: answer.owners }),
    answer.incomplete ? el('p', { class: 'soft' }, `The ${number(answer.owners.length)} with most consumers of ${number(answer.count)} are shown.`) : null]
}

async function limits(id, signal) {
  const answer = await api.placement('/limits', { query: { project_id: id }, at: moment.at(), signal })
  if (answer.limits.length === 0) return card('Limits', empty('Nothing limits this project.', el('a', { href: linkTo('limits') }, 'All limits')))
  return card('Limits', el('div', { class: 'bars' }, answer.limits.map((l) => bar(l.resource_class ?? `consumers of type ${l.consumer_type}`, l.used ?? 0, l.limit))))
}
