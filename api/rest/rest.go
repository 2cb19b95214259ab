// Package rest is what the REST APIs share, apart from their formats. It gives a
// request an id, negotiates its microversion, reads its query string and body,
// finds its moment, submits its command, and answers with a document or a
// Failure. Whatever differs between the APIs, above all texts and formats, they
// pass in as data. The package also keeps out requests that foreign web pages
// make browsers send.
package rest

// Allot's own headers.
const (
	// CommandIDHeader is a client's own id for its command. After a lost answer
	// the client can safely repeat the request with the same id, and gets the
	// first result.
	CommandIDHeader = "Allot-Command-Id"
	// AtHeader and the query parameter "at" make any GET answer as of a moment in
	// the past: after the commit with a sequence, or at an RFC 3339 time.
	// Everything else about request and answer stays the same.
	AtHeader = "Allot-At"
	// SequenceHeader is in every answer: the commit up to which the answer holds.
	SequenceHeader = "Allot-Sequence"
)
