// Package projector answers what is true now and what was true in the past. It
// folds commits into read models in Pebble and serves them as Views, each as of
// one sequence.
//
// Read models are disposable: they follow from the log alone, key by key and byte
// by byte, however the commits were batched. Every entity is stored once per
// commit that changed it, under a key that ends with the sequence. So a View of
// any past sequence reads exactly what was true then.
//
// No other package knows Pebble.
package projector
