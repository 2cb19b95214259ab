//go:build !allot_control

package leading

// leaseIgnored makes a leader answer without a look at its lease. It is a
// constant here. Only test programs, built to check that tests notice the fault,
// can change it.
const leaseIgnored = false
