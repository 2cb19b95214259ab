package baremetal

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

// parameters reads a query string in which each parameter may be given once.
func (r *request) parameters(known ...string) (url.Values, error) {
	unexpected, repeated := r.Query.Once(known, "fields")
	switch {
	case unexpected != nil:
		return nil, rest.BadRequest("Unexpected arguments: %s", strings.Join(unexpected, ", "))
	case repeated != "":
		return nil, rest.BadRequest("Invalid query string: %s may be given once", repeated)
	}
	return r.Query.Values(), nil
}

// fields reads the parameter fields; nil: all.
func fields(values url.Values, known []string) ([]string, error) {
	if !values.Has("fields") {
		return nil, nil
	}
	asked := strings.Split(strings.Join(values["fields"], ","), ",")
	var unknown []string
	for i := range asked {
		asked[i] = strings.TrimSpace(asked[i])
		if !slices.Contains(known, asked[i]) {
			unknown = append(unknown, strconv.Quote(asked[i]))
		}
	}
	if unknown != nil {
		return nil, rest.BadRequest("Field(s) %s are not valid", strings.Join(unknown, ", "))
	}
	return asked, nil
}

// show answers with one entity, or with those of its fields that the client asks
// for.
func show[T any](r *request, of things[T], find func() (*T, error)) (*response, error) {
	values, err := r.parameters("fields")
	if err != nil {
		return nil, err
	}
	asked, err := of.fields(values)
	if err != nil {
		return nil, err
	}
	one, err := find()
	if err != nil {
		return nil, err
	}
	doc, err := of.describe(one, asked)
	return ok(doc), err
}

// showWritten answers with an entity that the request has written, or made.
func showWritten[T any](of things[T], id ledger.UUID, status int) (*response, error) {
	one, found, err := of.written(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, of.missing(id.String())
	}
	answer := &response{status: status}
	if status == http.StatusCreated {
		answer.location = "/v1/" + of.name + "/" + id.String()
	}
	answer.body, err = of.describe(one, nil)
	return answer, err
}

type listing struct {
	limit      int
	marker     ledger.UUID // NilUUID: from the beginning
	sortKey    string
	descending bool
}

const defaultSortKey = "id"

// unsortable are keys that Ironic knows but does not sort by.
var unsortable = []string{
	"extra", "candidate_nodes", "traits", "driver_info", "driver_internal_info", "instance_info", "properties",
	"clean_step", "deploy_step", "raid_config", "target_raid_config", "network_data",
}

func (r *request) listing(values url.Values, sortable func(key string) bool) (*listing, error) {
	l := &listing{limit: cmp.Or(r.h.MaxLimit, DefaultMaxLimit), sortKey: defaultSortKey}
	if text := values.Get("limit"); values.Has("limit") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, rest.BadRequest("Expected an integer for limit: %s", text)
		}
		if n <= 0 {
			return nil, rest.BadRequest("Limit must be positive")
		}
		l.limit = min(l.limit, n)
	}
	if text := values.Get("marker"); text != "" {
		id, isUUID := parseUUID(text)
		if !isUUID {
			return nil, rest.BadRequest("Expected UUID for marker: %s", text)
		}
		l.marker = id
	}
	if key := values.Get("sort_key"); key != "" {
		if slices.Contains(unsortable, key) {
			return nil, rest.BadRequest("The sort_key value %s is an invalid field for sorting", key)
		}
		if key != defaultSortKey && !sortable(key) {
			return nil, rest.BadRequest("The sort_key value \"%s\" is an invalid field for sorting", key)
		}
		l.sortKey = key
	}
	switch direction := values.Get("sort_dir"); direction {
	case "", "asc":
	case "desc":
		l.descending = true
	default:
		return nil, rest.BadRequest("Invalid sort direction: %s. Acceptable values are 'asc' or 'desc'", direction)
	}
	return l, nil
}

// direct reports whether the list is in the order in which it is stored.
func (l *listing) direct() bool { return l.sortKey == defaultSortKey && !l.descending }

// next returns the link to the page after a full one. It keeps the filters, which
// Ironic forgets, and the moment.
func (r *request) next(l *listing, values url.Values, path string, last ledger.UUID) string {
	direction := "asc"
	if l.descending {
		direction = "desc"
	}
	query := "sort_key=" + l.sortKey + "&sort_dir=" + direction
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains([]string{"sort_key", "sort_dir", "limit", "marker"}, key) {
			query += "&" + key + "=" + strings.ReplaceAll(url.QueryEscape(strings.Join(values[key], ",")), "%2C", ",")
		}
	}
	if r.At != "" {
		query += "&at=" + url.QueryEscape(r.At)
	}
	return r.base + "/v1" + path + "?" + query + "&limit=" + strconv.Itoa(l.limit) + "&marker=" + last.String()
}

// things are the entities of a kind.
type things[T any] struct {
	name     string                                        // of a list of them, and of their paths
	keys     map[string]func(*T) string                    // keys by which lists can be sorted
	find     func(ledger.UUID) (*T, bool, error)           // one that the client may see
	written  func(ledger.UUID) (*T, bool, error)           // one that the client's own request has just written
	each     func(after uint64, yield func(*T) bool) error // in the order of their numbers
	missing  func(ident string) *rest.Failure
	id       func(*T) ledger.UUID
	number   func(*T) uint64
	fields   func(url.Values) ([]string, error)            // those that the client asks for; nil: all
	describe func(one *T, fields []string) (object, error) // in the form that clients see
}

// list answers with a page of the matching entities. If the page is full, it has
// a link to the next one, at a path.
func list[T any](
	r *request, of things[T], values url.Values, path string, matches func(*T) bool, fields []string,
) (*response, error) {
	l, err := r.listing(values, func(key string) bool { return of.keys[key] != nil })
	if err != nil {
		return nil, err
	}
	found, err := page(l, of, matches)
	if err != nil {
		return nil, err
	}
	docs := make([]object, len(found))
	for i, one := range found {
		if docs[i], err = of.describe(one, fields); err != nil {
			return nil, err
		}
	}
	body := object{{of.name, docs}}
	if len(found) == l.limit {
		body = append(body, member{"next", r.next(l, values, path, of.id(found[len(found)-1]))})
	}
	return ok(body), nil
}

// page reads one page of a list. In the stored order it reads no more than the
// page. For any other order it has to sort everything.
func page[T any](l *listing, of things[T], matches func(*T) bool) ([]*T, error) {
	after := uint64(0)
	if !l.marker.IsNil() {
		marker, found, err := of.find(l.marker)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, of.missing(l.marker.String())
		}
		if l.direct() {
			after = of.number(marker)
		}
	}
	key := of.keys[l.sortKey]
	isMarker := func(one *T) bool { return of.id(one) == l.marker }
	var list []*T
	err := of.each(after, func(one *T) bool {
		if matches(one) || !l.direct() && isMarker(one) {
			list = append(list, one)
		}
		return !l.direct() || len(list) < l.limit
	})
	if err != nil || l.direct() {
		return list, err
	}
	slices.SortFunc(list, func(a, b *T) int {
		order := cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(of.number(a), of.number(b)))
		if l.descending {
			return -order
		}
		return order
	})
	if i := slices.IndexFunc(list, isMarker); i >= 0 {
		list = list[i+1:]
	}
	return list[:min(l.limit, len(list))], nil
}

// parseUUID reads a uuid in the forms that Ironic accepts: dashes are optional.
func parseUUID(text string) (ledger.UUID, bool) {
	if len(text) != 36 && len(text) != 32 {
		return ledger.NilUUID, false
	}
	id, err := ledger.ParseUUID(text)
	return id, err == nil && !id.IsNil()
}
