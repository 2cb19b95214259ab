// The questions that have a page of their own.

import { linkTo } from '../address.js'
import { el, show } from '../dom.js'

const questions = [
  ['held', 'Who held what, and when', 'Holders of a provider, or what a consumer, project or user held, at any moment.'],
  ['candidates', 'Where would it fit?', 'Candidates for a request, and which filter removed what.'],
  ['why', 'Why does it hold that?', 'The records that led to what a consumer holds of a provider.'],
  ['what-if', 'What if?', 'The outcome of commands that are not recorded.'],
  ['rejected', 'What was rejected?', 'Rejected commands, why, and how they would be decided now.'],
  ['reservations', 'What is reserved?', 'Allocations that end unless they are confirmed.'],
  ['orphans', 'Who should not be there?', 'Consumers that hold something, compared with a list of those that may.'],
  ['limits', 'What is limited?', 'Limits of projects and what is used of them; a claim and a limit tried out.'],
  ['preferences', 'What do claims prefer?', 'Preferences that have names, and what they were.'],
  ['topologies', 'How much fits into which rack?', 'Topologies of aggregates, their domains, and what is left in each.'],
  ['baremetal', 'Which machines are there?', 'Bare metal nodes, and the allocations of whole nodes.'],
  ['compare', 'What has changed?', 'Two moments side by side.'],
  ['verification', 'Is it true?', 'The audit, the disk, signed checkpoints and proofs.'],
]

export async function render(main) {
  show(main, el('h1', {}, 'Ask'), el('ul', { class: 'questions' }, questions.map(([page, title, text]) =>
    el('li', {}, el('a', { href: linkTo(page) }, el('b', {}, title), el('span', {}, text))))))
  return {}
}
