package ledger

import "fmt"

// LimitSet says how much the consumers of a project, with those of the projects
// below it, may hold of a class, or how many consumers of a type there may be.
// Without a project it is the default.
type LimitSet struct {
	Project string `json:"project,omitempty"`
	Class   string `json:"class,omitempty"`
	Type    string `json:"type,omitempty"` // of consumers
	Most    int64  `json:"most"`
}

func (ev *LimitSet) form(c *coder) {
	c.eventFields(4).text(&ev.Project).text(&ev.Class).text(&ev.Type).int(&ev.Most)
}

func (ev LimitSet) apply(s *State, _ moment) error {
	key, err := s.limitKey(ev.Project, ev.Class, ev.Type)
	if err != nil {
		return err
	}
	if ev.Most < 0 {
		return fmt.Errorf("%w: a limit of %d", ErrInvariant, ev.Most)
	}
	s.setLimit(key, &Limit{key, ev.Most})
	return nil
}

// LimitRemoved says that there is such a limit no more.
type LimitRemoved struct {
	Project string `json:"project,omitempty"`
	Class   string `json:"class,omitempty"`
	Type    string `json:"type,omitempty"`
}

func (ev *LimitRemoved) form(c *coder) {
	c.eventFields(3).text(&ev.Project).text(&ev.Class).text(&ev.Type)
}

func (ev LimitRemoved) apply(s *State, _ moment) error {
	key, err := s.limitKey(ev.Project, ev.Class, ev.Type)
	if err != nil {
		return err
	}
	if _, exists := s.Limit(key); !exists {
		return fmt.Errorf("%w: there is no limit of %+v", ErrInvariant, ev)
	}
	s.setLimit(key, nil)
	return nil
}

func (s *State) limitKey(project, class, kind string) (LimitKey, error) {
	key := LimitKey{Project: project, Type: kind}
	if (class == "") == (kind == "") {
		return key, fmt.Errorf("%w: a limit of class %q and consumers of type %q", ErrInvariant, class, kind)
	}
	if kind != "" {
		return key, nil
	}
	id, known := s.classes.ID(class)
	if !known {
		return key, fmt.Errorf("%w: no resource class %q", ErrInvariant, class)
	}
	key.Class = id
	return key, nil
}

// ProjectPlaced says which project another one is below: what is held there
// counts for it, too. Without a parent it is below none.
type ProjectPlaced struct {
	Project string `json:"project"`
	Parent  string `json:"parent,omitempty"`
}

func (ev *ProjectPlaced) form(c *coder) { c.eventFields(2).text(&ev.Project).text(&ev.Parent) }

func (ev ProjectPlaced) apply(s *State, _ moment) error {
	if ev.Project == "" || !s.mayBeBelow(ev.Project, ev.Parent) {
		return fmt.Errorf("%w: project %q cannot be below %q", ErrInvariant, ev.Project, ev.Parent)
	}
	s.setParent(ev.Project, ev.Parent)
	return nil
}
