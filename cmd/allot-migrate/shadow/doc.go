// Package shadow is a proxy in front of a Placement and an Allot that have the same
// contents. One of them leads: it answers clients. The other one follows: it gets every
// write that the leader has accepted, in the order in which the leader took those that
// concern the same things. The answers of both are compared.
//
// Whatever goes wrong with the follower ends in one way: the provider, consumer, class or
// trait that a write was about is missed, and brought in line with the leader later. So
// the proxy stores nothing but who leads; all else it can find out again by a comparison.
//
// Generations of consumers differ between the two, so the proxy replaces those in a write
// by those of the follower. It asks for them, because the order of writes makes any
// generation that the leader accepted equal to the one that the follower has.
package shadow
