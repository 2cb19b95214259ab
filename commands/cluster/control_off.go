//go:build !allot_control

package cluster

// leaseIgnored has a leader answer without a look at its lease. It is a
// constant: only the programs that tests build, to see that they find what is
// wrong then, can be told so.
const leaseIgnored = false
