// What the server is asked, always with the reader's token.

const tokenKey = 'allot-token'
let askToken = async () => ''
let behind = 0 // ms by which the server's clock is behind

// now is the time by the server's clock, in ms.
export const now = () => Date.now() - Math.max(0, behind)

export const token = () => sessionStorage.getItem(tokenKey) ?? ''
export const setToken = (value) => sessionStorage.setItem(tokenKey, value)
export const forgetToken = () => sessionStorage.removeItem(tokenKey)

// onUnauthorized is called for another token after the last one was refused.
export function onUnauthorized(ask) { askToken = ask }

// Failure is an answer that is no answer; its message is the server's. Status
// 0 means that there was none: the server is away.
export class Failure extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }

  get isAway() { return this.status === 0 || this.status === 502 || this.status === 503 }
}

// ask sends a request, again after a refused token, and answers with the response.
async function ask(path, query = {}, options = {}) {
  const target = new URL(path, location.origin)
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') target.searchParams.append(key, value)
  }
  for (;;) {
    const sent = token()
    if (/[^\t -~\u00a0-\u00ff]/.test(sent)) { // no request can carry it
      await askToken('This token was refused.')
      continue
    }
    const headers = { ...options.headers, ...(sent ? { 'X-Auth-Token': sent } : {}) }
    const response = await fetched(target, { ...options, headers, cache: 'no-store' })
    if (response.status === 401) {
      if (sent === token()) await askToken(sent ? 'This token was refused.' : '')
      continue
    }
    if (!response.ok) throw new Failure(response.status, await reason(response))
    behind = Date.now() - Date.parse(response.headers.get('Date') ?? new Date())
    return response
  }
}

async function fetched(target, options) {
  try {
    return await fetch(target, options)
  } catch (error) {
    if (error.name === 'AbortError') throw error
    throw new Failure(0, 'The server does not answer.')
  }
}

// reason reads why a request failed: Placement and Ironic say it in JSON, the
// audit API in plain text.
async function reason(response) {
  const text = (await response.text()).trim()
  try {
    const { errors, error_message: fault } = JSON.parse(text)
    return errors?.[0]?.detail ?? (typeof fault === 'string' ? JSON.parse(fault) : fault)?.faultstring ?? text
  } catch {
    return text || response.statusText
  }
}

// get asks a question below /audit/.
export async function get(question, query = {}, signal = undefined) {
  return (await ask(`/audit/${question}`, query, { signal })).json()
}

export async function text(question, query = {}, signal = undefined) {
  return (await ask(`/audit/${question}`, query, { signal })).text()
}

// whatIf posts to the question that takes a body.
export async function whatIf(body, signal) {
  return (await ask('/audit/what-if', {}, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' }, signal })).json()
}

// placement asks Placement's API; a query string is sent as it is written.
export async function placement(path, { query = {}, search = '', at = '', signal } = {}) {
  const headers = { 'OpenStack-API-Version': 'placement 1.39', ...(at ? { 'Allot-At': at } : {}) }
  return (await ask(`${path}${search ? `?${search}` : ''}`, query, { headers, signal })).json()
}

// tryOut sends a command to Placement's API that decides it and records nothing.
export async function tryOut(method, path, body, signal) {
  const headers = { 'OpenStack-API-Version': 'placement 1.39', 'Content-Type': 'application/json' }
  const response = await ask(path, { dry_run: true }, { method, headers, body: JSON.stringify(body), signal })
  const answer = await response.text()
  return answer ? JSON.parse(answer) : {}
}

// baremetal asks Ironic's API.
export async function baremetal(path, query = {}, at = '', signal = undefined) {
  const headers = { 'X-OpenStack-Ironic-API-Version': '1.78', ...(at ? { 'Allot-At': at } : {}) }
  return (await ask(`/baremetal/v1/${path}`, query, { headers, signal })).json()
}

// server asks the server about itself.
export async function server(path, signal) {
  return (await ask(path, {}, { signal })).json()
}

// records lists records, oldest first.
export async function records(query, signal) {
  const lines = (await (await ask('/audit/records', query, { signal })).text()).split('\n')
  return lines.filter(Boolean).map((line) => checked(JSON.parse(line)))
}

function checked(record) {
  if (record.error) throw new Failure(500, record.error)
  return record
}

// follow calls yield for every record from a sequence on, as it comes, until
// the signal ends it. The server sends server-sent events; EventSource could
// not send the token.
export async function follow(from, yield_, signal) {
  const response = await ask('/audit/records', { from, follow: true }, { signal, headers: { Accept: 'text/event-stream' } })
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let rest = ''; ;) {
    const { value, done } = await read(reader)
    if (done) return
    const events = (rest + value).split('\n\n')
    rest = events.pop()
    for (const event of events) {
      const data = event.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).join('\n')
      if (data) yield_(checked(JSON.parse(data)))
    }
  }
}

async function read(reader) {
  try {
    return await reader.read()
  } catch {
    throw new Failure(0, 'The server does not answer.')
  }
}
