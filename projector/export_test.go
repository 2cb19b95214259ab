package projector

// Forget drops the amounts that are kept in memory.
func (p *Projector) Forget() {
	p.folding.Lock()
	defer p.folding.Unlock()
	m := p.models.Load()
	m.recent, m.older = make(map[string]*runs), nil
}
