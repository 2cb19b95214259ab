// Package racetest lets the properties of a package whose tests import it hold in a tenth
// of the random worlds under the race detector, see ledgertest.Raced. make models plays
// all of them, and only there does a test demand that each kind of case came.
package racetest
