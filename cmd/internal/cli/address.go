package cli

import (
	"fmt"
	"net"
)

// IsLocal reports whether only this machine can reach an address.
func IsLocal(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("%q is not HOST:PORT", address)
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback(), nil
	}
	return host == "localhost", nil
}
