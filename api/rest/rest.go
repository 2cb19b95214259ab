// Package rest is the kit of the REST port: what its facades have in common
// beside the formats that they speak. A request gets an id, its microversion is
// negotiated, its query string and body are read, it finds its moment, submits
// a command, and is answered with a document or a Failure. What differs between
// the facades, texts and formats above all, they hand in as data. And requests
// that foreign web pages have browsers send are kept out.
package rest

// Allot's own headers.
const (
	// CommandIDHeader lets a client name its command, so that sending the
	// request again after a lost answer is safe: the first result is answered
	// again.
	CommandIDHeader = "Allot-Command-Id"
	// AtHeader and the query parameter "at" let any GET be answered as it was
	// at a moment in the past: after the commit with a sequence, or at an RFC
	// 3339 time. Everything else about request and answer is as without them.
	AtHeader = "Allot-At"
	// SequenceHeader says, in the answer to a GET, after which commit it is so.
	SequenceHeader = "Allot-Sequence"
)
