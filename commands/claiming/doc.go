// Package claiming finds what claims ask for: for each consumer the best candidate by what is
// preferred, and for several together what the rules of their gang, limits of aggregates and
// reservations leave. It is pure; the decision of a claim (commands.Claim) takes what it finds.
package claiming
