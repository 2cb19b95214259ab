package projector

// Age drops the amounts in memory that were not used since it did so last.
func (p *Projector) Age() {
	p.folding.Lock()
	defer p.folding.Unlock()
	p.models.Load().age()
}
