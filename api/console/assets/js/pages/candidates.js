// Candidates for a request, and which filter removed how many providers.

import { withQuery } from '../address.js'
import * as api from '../api.js'
import { asking, card, el, empty, field, number, show, subject } from '../dom.js'
import * as moment from '../moment.js'
import { table } from '../table.js'
import { resolve } from './held.js'
import { fits, later } from './parts.js'

const parameters = ['resources', 'required', 'member_of', 'in_tree', 'limit']

// each changes the names or uuids in the value of a parameter.
const each = async (text, change) => (await Promise.all(text.split(/(in:|[!,])/).map((part, i) => (i % 2 || !part ? part : change(part))))).join('')

export async function render(main, { query }, signal) {
  const ids = `${query.member_of ?? ''},${query.in_tree ?? ''}`.match(/[0-9a-f-]{32,36}/g)
  const { names } = ids ? await api.get('names', { ids: ids.join(',') }, signal) : { names: {} }
  const [aggregates, root] = await Promise.all([query.member_of, query.in_tree].map((text) => each(text ?? '', (id) => names[id] ?? id)))
  const [resources, required, memberOf, inTree, limit] = [
    field('Resources', { value: query.resources ?? '', placeholder: 'VCPU:2,MEMORY_MB:2048' }), field('Traits', { value: query.required ?? '', placeholder: 'HW_CPU_X86_AVX2,!CUSTOM_OLD' }),
    field('Aggregates', { value: aggregates, placeholder: 'r1, or in:r1,r2' }), field('In the tree of', { value: root, placeholder: 'name or uuid' }),
    field('At most', { value: query.limit ?? '20', inputmode: 'numeric' }),
  ]
  const others = field('More parameters', { value: query.more ?? '', placeholder: 'resources1=VGPU:1&group_policy=isolate' })
  const result = el('div', { 'aria-live': 'polite' })
  const address = async (wanted, traits, of, tree, most, more) => withQuery('#/candidates', { resources: wanted, required: traits,
    member_of: await each(of, (name) => resolve('aggregate', name)), in_tree: await resolve('provider', tree), limit: most, more })
  show(main, el('h1', {}, moment.isNow() ? 'Where would it fit?' : `Where would it have fit at #${moment.sequence()}?`),
    asking([resources, required, memberOf, inTree, limit, others], 'Search', address), result)
  if (!query.resources && !query.more) {
    show(result, empty('Say what is needed.', 'Resources are CLASS:AMOUNT, with commas between them. Groups with suffixes go into the last field, as in GET /allocation_candidates.'))
    return {}
  }
  const search = new URLSearchParams(parameters.filter((name) => query[name]).map((name) => [name, query[name]]))
  if (!query.limit) search.set('limit', '20')
  search.set('explain', 'true')
  const answer = await api.placement('/allocation_candidates', { search: [search.toString(), query.more].filter(Boolean).join('&'), at: moment.at(), signal })
  search.delete('limit')
  search.delete('explain')
  const more = later('How many more fit', () => howMany([search.toString(), query.more].filter(Boolean).join('&'), signal))
  show(result, explained(answer.explanation, answer.allocation_requests.length), more, found(answer))
  await more.ready
  return {}
}

// howMany counts how many more of the request fit, and where.
async function howMany(search, signal) {
  const capacity = await api.placement('/capacity', { search, at: moment.at(), signal })
  return card(fits(capacity), capacity.next ? el('p', { class: 'soft' }, 'The first 1,000 trees:') : null, table({
    label: 'How many more fit, by tree', file: 'capacity', rows: capacity.trees, nothing: empty('Nothing more fits.'),
    columns: [{ title: 'Tree', value: (t) => t.root, show: (t) => subject('provider', t.root) }, { title: 'More', number: true, value: (t) => t.capacity }],
  }))
}

// explained is a funnel for each group, and one for trees.
function explained(explanation, count) {
  const funnel = (title, steps) => {
    const most = Math.max(1, ...steps.map((step) => step.left))
    return el('div', {}, el('h3', {}, title), el('ol', { class: 'funnel' }, steps.map((step, i) => {
      const gone = i > 0 ? steps[i - 1].left - step.left : 0
      const fill = el('span', { class: 'fill' })
      fill.style.width = `${(100 * step.left) / most}%`
      return el('li', { class: step.left === 0 ? 'none' : null }, el('span', { class: 'filter' }, step.filter), el('span', { class: 'left' }, number(step.left)), el('span', { class: 'gone' }, gone > 0 ? `−${number(gone)}` : ''), el('span', { class: 'track' }, fill))
    })))
  }
  return card(count > 0 ? 'What each filter left' : 'Nothing fits', explanation.removed_last ? el('p', { class: 'lead' }, 'The filter that left nothing: ', el('b', {}, explanation.removed_last)) : null,
    el('div', { class: 'split even' }, explanation.groups.map((g) => funnel(`Providers${g.suffix ? ` for group ${g.suffix}` : ''}${g.resource_class ? ` with ${g.resource_class}` : ''}`, g.steps)), funnel('Trees', explanation.trees)))
}

function found(answer) {
  if (answer.allocation_requests.length === 0) return null
  const resources = (request) => Object.entries(request.allocations).map(([id, a]) => [id, Object.entries(a.resources).map(([name, n]) => `${number(n)} ${name}`).join(', ')])
  const free = (id) => Object.entries(answer.provider_summaries[id]?.resources ?? {}).map(([name, r]) => `${number(r.capacity - r.used)} ${name}`).join(', ')
  return card(`${number(answer.allocation_requests.length)} candidates`, table({
    label: 'Candidates', file: 'candidates', rows: answer.allocation_requests,
    columns: [
      { title: 'Allocations', value: (r) => resources(r).map(([id, text]) => `${id}: ${text}`).join('; '), show: (r) => resources(r).map(([id, text]) => el('div', {}, `${text} of `, subject('provider', id))) },
      { title: 'Free there now', value: (r) => Object.keys(r.allocations).map(free).join('; '), show: (r) => Object.keys(r.allocations).map((id) => el('div', {}, free(id))) },
    ],
  }))
}
