package embedded

// AddressOf returns where a server listens for clients, whether it lets them in or not.
func AddressOf(s *Server) string { return s.ns.Addr().String() }
