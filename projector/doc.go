// Package projector says what is now and what was then. It folds commits into
// read models in Pebble and serves them as Views, each at one sequence.
//
// Read models are disposable: they follow from the log alone, key by key and
// byte by byte, however the commits were batched. Every entity is stored once
// per commit that changed it, under a key that ends with the sequence, so a
// View of any past sequence reads exactly what was so then.
//
// It is the only package that knows Pebble.
package projector
