package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

type check interface {
	allows(*Rules, Identity, Target) bool
	references() []string
}

type (
	always struct{ answer bool }
	not    struct{ check check }
	allOf  []check
	anyOf  []check
	named  string // rule:NAME
	role   string // role:NAME
	// equal compares an attribute of the identity with a value or, if attribute
	// is set, with an attribute of the target.
	equal struct{ own, value, attribute string }
)

func (c always) allows(*Rules, Identity, Target) bool { return c.answer }
func (c always) references() []string                 { return nil }

func (c not) allows(r *Rules, id Identity, t Target) bool { return !c.check.allows(r, id, t) }
func (c not) references() []string                        { return c.check.references() }

func (c allOf) allows(r *Rules, id Identity, t Target) bool {
	return !slices.ContainsFunc(c, func(c check) bool { return !c.allows(r, id, t) })
}
func (c allOf) references() []string { return referencesOf(c) }

func (c anyOf) allows(r *Rules, id Identity, t Target) bool {
	return slices.ContainsFunc(c, func(c check) bool { return c.allows(r, id, t) })
}
func (c anyOf) references() []string { return referencesOf(c) }

func referencesOf(checks []check) (names []string) {
	for _, c := range checks {
		names = append(names, c.references()...)
	}
	return names
}

func (c named) allows(r *Rules, id Identity, t Target) bool { return r.holds(string(c), id, t) }
func (c named) references() []string                        { return []string{string(c)} }

func (c role) allows(_ *Rules, id Identity, _ Target) bool { return id.Has(string(c)) }
func (c role) references() []string                        { return nil }

func (c equal) allows(_ *Rules, id Identity, t Target) bool {
	own := map[string]string{"user_id": id.User, "project_id": id.Project}[c.own]
	if c.own == "system_scope" && id.System {
		own = "all"
	}
	value := c.value
	if c.attribute != "" {
		value = t[c.attribute]
	}
	return own != "" && own == value
}
func (c equal) references() []string { return nil }

// tokens are parentheses and words. Blanks separate words.
var tokens = regexp.MustCompile(`%\([^()]*\)s|[()]|[^\s()%]+|%`)

// words joins the pieces of the text: project_id:%(project_id)s is one word,
// although it has parentheses in it.
func words(text string) []string {
	var list []string
	end := -1
	for _, at := range tokens.FindAllStringIndex(text, -1) {
		piece := text[at[0]:at[1]]
		bracket := piece == "(" || piece == ")"
		if n := len(list); at[0] == end && !bracket && n > 0 && list[n-1] != "(" && list[n-1] != ")" {
			list[n-1] += piece
		} else {
			list = append(list, piece)
		}
		end = at[1]
	}
	return list
}

// parse reads a rule: checks joined by "and", "or" and "not", with parentheses;
// "not" binds most closely, then "and", then "or". The empty rule allows.
func parse(text string) (check, error) {
	p := &parser{words: words(text)}
	if len(p.words) == 0 {
		return always{true}, nil
	}
	c, err := p.or()
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	if len(p.words) > 0 {
		return nil, fmt.Errorf("%q: %q was not expected", text, p.words[0])
	}
	return c, nil
}

type parser struct {
	words []string
	depth int
}

// take takes the next word if it is this one. Case does not matter.
func (p *parser) take(word string) bool {
	if len(p.words) == 0 || !strings.EqualFold(p.words[0], word) {
		return false
	}
	p.words = p.words[1:]
	return true
}

func (p *parser) or() (check, error) {
	first, err := p.and()
	list := anyOf{first}
	for err == nil && p.take("or") {
		var next check
		next, err = p.and()
		list = append(list, next)
	}
	return list, err
}

func (p *parser) and() (check, error) {
	first, err := p.one()
	list := allOf{first}
	for err == nil && p.take("and") {
		var next check
		next, err = p.one()
		list = append(list, next)
	}
	return list, err
}

const maxDepth = 64

func (p *parser) one() (check, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errors.New("the rule is nested too deeply")
	}
	defer func() { p.depth-- }()
	if p.take("not") {
		c, err := p.one()
		return not{c}, err
	}
	if p.take("(") {
		c, err := p.or()
		if err == nil && !p.take(")") {
			err = errors.New("a closing parenthesis is missing")
		}
		return c, err
	}
	if len(p.words) == 0 {
		return nil, errors.New("the rule ends too early")
	}
	word := p.words[0]
	p.words = p.words[1:]
	return single(word)
}

var targetValue = regexp.MustCompile(`^%\(([a-z_.]+)\)s$`)

// single reads KIND:VALUE, "@" (always) or "!" (never).
func single(word string) (check, error) {
	switch word {
	case "@":
		return always{true}, nil
	case "!":
		return always{false}, nil
	}
	kind, value, found := strings.Cut(word, ":")
	if !found || value == "" {
		return nil, fmt.Errorf("%q is not KIND:VALUE, \"@\" or \"!\"", word)
	}
	switch kind {
	case "rule":
		return named(value), nil
	case "role":
		if strings.Contains(value, "%") {
			return nil, fmt.Errorf("%q: a role cannot come from the request", word)
		}
		return role(value), nil
	case "user_id", "project_id", "system_scope":
		if match := targetValue.FindStringSubmatch(value); match != nil {
			if !slices.Contains(TargetAttributes, match[1]) {
				return nil, fmt.Errorf("%q: requests have no %s", word, match[1])
			}
			return equal{own: kind, attribute: match[1]}, nil
		}
		if strings.Contains(value, "%") {
			return nil, fmt.Errorf("%q is neither a value nor %%(NAME)s", word)
		}
		return equal{own: kind, value: value}, nil
	}
	return nil, fmt.Errorf("checks of kind %q are not supported", kind)
}
