// Package ledger says what happened: the domain's values, the events that
// change them, the records and commits that carry the events, the State that
// folding them yields, and the Log that keeps them.
//
// Everything here is pure. No function reads a clock, does I/O or draws a
// random number; times, ids and choices arrive as data on a Record. The same
// commits therefore always fold to the same State, byte for byte, which is
// what replay, snapshots and verification rest on.
//
// The terms are Placement's: a provider has inventories, traits and
// aggregates; a consumer holds allocations on providers; an inventory's
// capacity is (total - reserved) * allocation ratio.
package ledger
