// Package processes contains the processes that submit commands without a client.
// A process reads the present from the read models and submits a command; the
// writer decides it. A process stores nothing: after a restart it goes on with
// what is left to do, and a command that was carried out before the crash changes
// nothing any more.
package processes
