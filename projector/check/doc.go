// Package check compares the ledger with its log and with what lies on the disk:
// Replay makes everything again from a log; VerifyLog compares what was made of
// the log earlier (snapshots, read models, signed checkpoints) with that; an
// Auditor does so beside a running ledger; a Scrubber reads the files again to
// find damage early.
package check
