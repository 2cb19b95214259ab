package natsapi

// EndPace lets bodies come that have so many bytes together, and then no more.
func (s *Service) EndPace(room int) {
	s.pace.SetLimit(0)
	s.pace.SetBurst(room)
}
