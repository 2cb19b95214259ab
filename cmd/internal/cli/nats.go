package cli

import "github.com/nats-io/nats.go"

// Silent suppresses nats.go's own messages about refusals: a probe hopes for them, and others tell
// them themselves.
var Silent = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
