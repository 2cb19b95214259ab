// Package baremetal serves Ironic's Allocations API and as much of its Nodes API
// as its clients need (microversions 1.1 to 1.94). Nodes are what their operators
// declare: no hardware is contacted, and every verb takes effect at once.
package baremetal
