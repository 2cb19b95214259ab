package wanted

// Explanation shows how a request's filters, one after the other, narrow down the
// providers, and then the trees.
type Explanation struct {
	Groups []GroupExplanation `json:"groups"`
	// Trees narrows down the trees, each by its root: those that the filters of
	// roots leave, then those that can serve one group after the other, then
	// those in which a whole candidate was found.
	Trees []Step `json:"trees"`
	// RemovedLast names the first filter that left nothing; empty if the request
	// has candidates.
	RemovedLast string `json:"removed_last"`
}

// GroupExplanation is about the providers of one group; for the group without a
// suffix, about those of one of its classes.
type GroupExplanation struct {
	Suffix string `json:"suffix"`
	Class  string `json:"resource_class,omitempty"`
	Steps  []Step `json:"steps"`
}

// Step is one filter, and how many it left.
type Step struct {
	Filter string `json:"filter"`
	Left   int    `json:"left"`
}
