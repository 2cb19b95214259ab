// The address of a page: #/PAGE/ARGUMENT...?at=MOMENT&FILTER=VALUE

// parse reads the address that is shown.
export function parse() {
  const hash = location.hash.replace(/^#\/?/, '')
  const cut = hash.indexOf('?')
  const path = cut < 0 ? hash : hash.slice(0, cut)
  const [name, ...rest] = path.split('/').map((part) => { try { return decodeURIComponent(part) } catch { return part } })
  const query = Object.fromEntries(new URLSearchParams(cut < 0 ? '' : hash.slice(cut + 1)))
  return { name, rest: rest.filter(Boolean), at: query.at ?? null, query }
}

// linkTo is the address of a page at the moment that is shown.
export function linkTo(name, ...rest) {
  return `#/${[name, ...rest].map(encodeURIComponent).join('/')}`
}

// withQuery adds filters to an address; empty ones are left out.
export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '')
  return given.length ? `${path}?${new URLSearchParams(given)}` : path
}

// setAt puts a moment into the address that is shown; null: now.
export function setAt(at) {
  const { query } = parse()
  delete query.at
  const path = location.hash.split('?')[0] || '#/overview'
  history.replaceState(null, '', withQuery(path, at === null ? query : { ...query, at }))
}
