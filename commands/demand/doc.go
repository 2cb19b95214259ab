// Package demand is what is asked of a ledger, in words: candidates, what is preferred
// about them, the rules of a gang; and the rejection of what cannot be had. It is pure.
package demand
