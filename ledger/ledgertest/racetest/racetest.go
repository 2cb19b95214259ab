// Package racetest lets the properties of a package whose tests import it hold in a quarter
// as many random worlds under the race detector, see ledgertest.Raced. make models plays
// all of them.
package racetest
