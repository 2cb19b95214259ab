// Package processes holds what submits commands by itself. A process reads what
// is so from the read models, submits a command, and the writer decides. It
// keeps nothing: after a restart it goes on with what is left to do, and a
// command that was carried out before the crash has nothing to do any more.
package processes
