// Package placement serves the OpenStack Placement REST API, microversions
// 1.0 to 1.39, over the ledger. It decodes requests into commands, submits
// them, and encodes Views. Which clients notice no difference from upstream,
// and where there is one on purpose, docs/compatibility.md says.
package placement
