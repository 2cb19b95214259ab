// The page of one thing, whatever it is.

import { linkTo } from '../address.js'
import * as api from '../api.js'
import { el, empty, show } from '../dom.js'
import * as consumer from './consumer.js'
import * as owner from './owner.js'
import * as provider from './provider.js'
import * as thing from './thing.js'

const pages = { provider, consumer, project: owner, user: owner, node: thing, node_allocation: thing, chassis: thing, command: { render: renderCommand } }

export async function render(main, address, signal) {
  const [of = ''] = address.rest
  if (pages[of] && address.rest[1]) return pages[of].render(main, address, signal)
  show(main, el('h1', {}, 'Nothing'), empty(`The ledger has no ${of || 'such thing'}.`, 'Use the search at the top.'))
  return {}
}

// renderCommand goes to the record of a command.
async function renderCommand(main, { rest: [, id] }, signal) {
  const { entries } = await api.get('history', { command: id }, signal)
  if (entries.length) location.replace(linkTo('record', entries[0].address))
  else show(main, el('h1', {}, `Command ${id}`), empty('No record has this command id.', 'It may have been ', el('a', { href: `${linkTo('rejected')}?command_id=${encodeURIComponent(id)}` }, 'rejected'), '.'))
  return {}
}
