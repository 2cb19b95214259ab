// Package commands decides what may happen. Each command is a type with a method
// decide, which holds every rule that the command must obey. It is pure: it reads
// a State and returns events or a Rejection. Package writer carries commands out.
package commands
