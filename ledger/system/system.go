// Package system has the calls of the operating system that Go's standard library
// lacks, so that the rest of the program has none of its own. On wasip1 the host
// answers them: there the server runs on a simulated machine.
package system
