// Tables as files.

import { el } from './dom.js'

// csvOf writes rows by RFC 4180. A text that a spreadsheet would take for a
// formula begins with an apostrophe, since names come from clients.
export function csvOf(columns, rows) {
  const line = (values) => values.map(cell).join(',')
  return [line(columns), ...rows.map(line)].join('\r\n') + '\r\n'
}

function cell(value) {
  let text = value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)
  if (typeof value !== 'number' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

// saveRows saves rows as a table, or what they are made of as JSON.
export function saveRows(name, type, columns, rows, values) {
  if (type === 'json') save(`${name}.json`, 'application/json', `${JSON.stringify(values, null, 2)}\n`)
  else save(`${name}.csv`, 'text/csv', csvOf(columns, rows))
}

// saving are the buttons that save a table as a file.
export const saving = (download) => ['csv', 'json'].map((type) => el('button', { type: 'button', class: 'quiet', click: () => download(type) }, type.toUpperCase()))

// save hands a file to the browser.
export function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  document.body.append(link)
  link.click()
  link.remove()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
