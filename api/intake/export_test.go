package intake

// Weigh is what a JSON document weighs at most that is not too heavy.
func Weigh(text []byte) int64 {
	p := prices
	p.Most = 1 << 60
	weight, _ := p.Weigh(text) // some are too deep, which is found before they weigh more
	return int64(weight)
}
