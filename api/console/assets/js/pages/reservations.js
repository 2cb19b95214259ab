// Allocations that end unless they are confirmed.

import * as api from '../api.js'
import { age, card, el, empty, show, subject, time, amounts } from '../dom.js'
import { table } from '../table.js'
import { summed } from '../words.js'

export async function render(main, _, signal) {
  const answer = await api.get('reservations', { limit: 1000 }, signal)
  show(main, el('h1', {}, 'Reservations'), card(null, table({
      label: 'Reservations', file: 'reservations', rows: answer.reservations, nothing: empty('Nothing is reserved.', 'A reservation is made with the command Reserve over NATS.'),
      columns: [
        { title: 'Ends', value: (r) => r.reserved_until, show: (r) => [age(r.reserved_until), ' · ', time(r.reserved_until)] },
        { title: 'Consumer', value: (r) => r.consumer, show: (r) => subject('consumer', r.consumer) }, { title: 'Project', value: (r) => r.project, show: (r) => subject('project', r.project) },
        { title: 'User', value: (r) => r.user, show: (r) => subject('user', r.user) },
        { title: 'May draw', value: (r) => (r.projects ?? []).join(' '), show: (r) => (r.projects ?? []).map((id) => el('div', {}, subject('project', id))) },
        { title: 'Holds', value: (r) => amounts(summed(r)) },
        { title: 'Providers', value: (r) => [...new Set(r.allocations.map((a) => a.provider))].join(' '), show: (r) => [...new Set(r.allocations.map((a) => a.provider))].map((id) => el('div', {}, subject('provider', id))) },
      ],
    }), answer.incomplete ? el('p', { class: 'error' }, 'There are more reservations than are shown.') : null))
  return {}
}
