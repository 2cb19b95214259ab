package candidates

// Eager has a Ranking make an order for whatever is required by name, at once and however few
// roots have it.
func (r *Ranking) Eager() { r.fewRoots, r.costOfOrder = 0, 0 }

// OrdersOfSome is how many orders are of those roots that have something.
func (r *Ranking) OrdersOfSome() (n int) {
	for _, o := range r.orders {
		if o.named != nil {
			n++
		}
	}
	return n
}

// Orders is how many orders there are.
func (r *Ranking) Orders() int { return len(r.orders) }
