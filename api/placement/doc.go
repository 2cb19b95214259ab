// Package placement serves the OpenStack Placement REST API, microversions 1.0 to
// 1.39, over the ledger. It decodes requests into commands, submits them, and
// encodes Views. Clients notice no difference from upstream, except those that
// docs/compatibility.md lists.
package placement
