// Package commands decides what may happen. Each command has its own file with
// its type and its Decide method, which holds every rule that the command must
// obey. Decide is pure: it reads a State and returns events or a Rejection.
// Package writer carries commands out.
package commands
