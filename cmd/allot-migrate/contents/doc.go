// Package contents decides how a ledger begins with the contents of something
// else. It is pure: rows, as a Placement's database holds them, become the records
// of the ledger's first commits, and a report. Each row is imported, or left out
// by a named rule; none disappears.
//
// Sources (packages below this one's name) read rows. The program writes the
// commits.
package contents
