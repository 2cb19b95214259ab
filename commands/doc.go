// Package commands decides what may happen. Each command has a file of its
// own with its type and its Decide method, which holds every rule that the
// command must obey. Decide is pure: it reads a State and answers with events or
// a Rejection. Package writer carries commands out.
package commands
