package projector

// Forget drops the amounts that are kept in memory.
func (p *Projector) Forget() {
	p.folding.Lock()
	defer p.folding.Unlock()
	p.models.Load().recent = make(map[string]*runs)
}
