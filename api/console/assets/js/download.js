// Tables as files.

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
