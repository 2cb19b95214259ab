// Package check compares the ledger with its log and with the disk. Replay
// rebuilds everything from a log. VerifyLog compares that with what was made of
// the log earlier (snapshots, read models, signed checkpoints). An Auditor
// compares beside a running ledger. A Scrubber reads the files again, to find
// damage early.
package check
