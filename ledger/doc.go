// Package ledger holds the facts: the domain's values, the events that change
// them, the records and commits that carry events, the State that they fold into,
// and the Log that keeps them.
//
// Everything here is pure. No function reads a clock, does I/O or draws a random
// number; times, ids and choices are data on a Record. So the same commits always
// fold to the same State, byte for byte. Replay, snapshots and verification rest
// on that.
//
// The terms are Placement's: a provider has inventories, traits and aggregates; a
// consumer holds allocations on providers; an inventory's capacity is (total -
// reserved) * allocation ratio.
package ledger
