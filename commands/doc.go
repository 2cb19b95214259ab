// Package commands decides what may happen. Each command has a file of its
// own with its type and its Decide method, which holds every rule that the
// command must obey; the Processor is the single writer that decides commands
// one after the other and appends the accepted ones to the log.
//
// Decide is pure: it reads a State and answers with events or a Rejection.
package commands
