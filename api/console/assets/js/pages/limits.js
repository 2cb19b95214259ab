// Limits of projects, and a claim or a limit that is tried out.

import * as api from '../api.js'
import { data } from '../difference.js'
import { bar, card, choice, el, empty, field, form, number, show, subject } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { resolve } from './held.js'

export async function render(main, _, signal) {
  const answer = await api.placement('/limits', { at: moment.at(), signal })
  show(main, el('h1', {}, moment.isNow() ? 'Limits' : `Limits at #${moment.sequence()}`),
    card(null, table({
      label: 'Limits', file: 'limits', rows: answer.limits, nothing: empty('Nothing is limited.', 'PUT /limits sets a limit, of a project or of every project.'),
      columns: [
        { title: 'Whose', value: whose, show: link },
        { title: 'Of', value: (l) => l.resource_class ?? `consumers of type ${l.consumer_type}` }, { title: 'Limit', number: true, value: (l) => l.limit },
        { title: 'Used', number: true, value: (l) => l.used }, { title: 'Share', value: (l) => (l.used === undefined || !l.limit ? '' : (l.used / l.limit).toFixed(3)), show: (l) => (l.used === undefined ? '' : bar('used', l.used, l.limit)) },
      ],
    })),
    answer.projects.length ? card('Projects below others', table({
      label: 'Tree of projects', file: 'projects-tree', rows: answer.projects,
      columns: [{ title: 'Project', value: (p) => p.project_id, show: (p) => subject('project', p.project_id) }, { title: 'Below', value: (p) => p.parent_id, show: (p) => subject('project', p.parent_id) }],
    })) : null,
    card('Try a claim', el('p', { class: 'soft' }, 'A claim chooses the best candidate and allocates it. Here it is decided now, and nothing is recorded.'), claim(signal)),
    card('Try a limit', limit(signal)))
  return {}
}

const whose = (l) => l.project_id ?? (l.aggregate ? `all in aggregate ${l.aggregate}` : 'every project')
const link = (l) => (l.project_id ? subject('project', l.project_id) : l.aggregate ? ['all in ', subject('aggregate', l.aggregate)] : whose(l))

function claim(signal) {
  const [request, project, user, type] = [field('Request', { placeholder: 'resources=VCPU:2,MEMORY_MB:2048', required: true }), field('Project', { required: true }), field('User', { value: 'console', required: true }), field('Type', { value: 'INSTANCE', required: true })]
  const order = choice('Prefer', [['pack', 'full providers'], ['spread', 'empty providers'], ['random', 'any']], 'spread')
  return form([request, project, user, type, order], 'Try the claim', async () => {
    const answer = await api.tryOut('POST', '/claims', {
      consumers: [{ consumer_uuid: randomUUID(), project_id: await resolve('project', project.value()), user_id: user.value(), consumer_type: type.value(), consumer_generation: null }],
      requests: [request.value().replace(/^\?/, '')], prefer: { order: order.value() },
    }, signal)
    const event = (answer.events ?? []).find((one) => one.data.allocations)
    return [el('p', { class: 'lead good' }, 'It would be accepted: ', event ? event.data.allocations.map((a, i) => [i ? ', ' : '', `${number(a.amount)} ${a.class} of `, subject('provider', a.provider)]) : null), details(answer)]
  }).node
}

function limit(signal) {
  const [project, name, most] = [field('Project', { placeholder: 'empty: every project' }), field('Class', { placeholder: 'VCPU', required: true }), field('Limit', { inputmode: 'numeric', placeholder: 'empty: none' })]
  return form([project, name, most], 'Try the limit', async () => {
    if (most.value() && !/^\d+$/.test(most.value())) throw new Error('The limit must be a number.')
    const answer = await api.tryOut('PUT', '/limits', { ...(project.value() ? { project_id: await resolve('project', project.value()) } : {}), resource_class: name.value(), limit: most.value() ? Number(most.value()) : null }, signal)
    return [el('p', { class: 'lead good' }, 'It would be accepted. Allocations that are there stay; new ones above the limit would be rejected.'), details(answer)]
  }).node
}

const details = (answer) => el('details', {}, el('summary', {}, 'What would be recorded'), data(answer))

// randomUUID needs no secure context, unlike crypto.randomUUID.
function randomUUID() {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  bytes[6] = (bytes[6] & 0x0f) | 0x40
  bytes[8] = (bytes[8] & 0x3f) | 0x80
  return [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
