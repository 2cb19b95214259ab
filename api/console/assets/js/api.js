// What the server is asked, always with the token of whoever looks.

const tokenKey = 'allot-token'
let askToken = async () => ''

export const token = () => sessionStorage.getItem(tokenKey) ?? ''
export const setToken = (value) => sessionStorage.setItem(tokenKey, value)
export const forgetToken = () => sessionStorage.removeItem(tokenKey)

// onUnauthorized is called for another token after the last one was refused.
export function onUnauthorized(ask) { askToken = ask }

// Failure is an answer that is no answer; its message is the server's.
export class Failure extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

async function request(path, query, options = {}) {
  const target = new URL(path, location.origin)
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') target.searchParams.set(key, value)
  }
  for (;;) {
    const sent = token()
    const headers = { ...options.headers, ...(sent ? { 'X-Auth-Token': sent } : {}) }
    const response = await fetch(target, { ...options, headers, cache: 'no-store' })
    if (response.status === 401) {
      if (sent === token()) await askToken(sent ? 'This token was refused.' : '')
      continue
    }
    if (!response.ok) throw new Failure(response.status, (await response.text()).trim() || response.statusText)
    return response
  }
}

// get asks a question below /audit/.
export async function get(question, query = {}, signal = undefined) {
  return (await request(`/audit/${question}`, query, { signal })).json()
}

export async function text(question, query = {}) {
  return (await request(`/audit/${question}`, query)).text()
}

// records lists records, oldest first.
export async function records(query, signal) {
  const lines = (await (await request('/audit/records', query, { signal })).text()).split('\n')
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
  const response = await request('/audit/records', { from, follow: true }, { signal, headers: { Accept: 'text/event-stream' } })
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let rest = ''; ;) {
    const { value, done } = await reader.read()
    if (done) return
    const events = (rest + value).split('\n\n')
    rest = events.pop()
    for (const event of events) {
      const data = event.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).join('\n')
      if (data) yield_(checked(JSON.parse(data)))
    }
  }
}
