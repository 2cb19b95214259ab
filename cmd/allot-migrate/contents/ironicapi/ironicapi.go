// Package ironicapi reads the nodes, node allocations and chassis of an Ironic through its REST API, for those
// who cannot read its database. It changes nothing there.
package ironicapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/services"
)

// Untold is what the API cannot tell.
var Untold = []string{
	"secrets in driver_info, which Ironic masks itself",
	"rows that refer to nothing: traits of missing nodes, nodes whose allocation is gone",
	"rows of other tables, such as ports, of which a ledger holds nothing",
}

// Source is an Ironic's REST API.
type Source struct {
	URL   string
	Token string       // "": none, or the client adds one
	HTTP  *http.Client // nil: the usual one

	ironic  *services.Service
	version string // that Ironic answered in
}

const (
	rounds = 5    // readings of what changes meanwhile
	page   = 1000 // entities of an answer
	oldest = 52   // the first version with allocations
)

// Read reads everything, twice and until two readings in a row are the same: the API
// has no moment of which it could be asked.
func (s *Source) Read(ctx context.Context, show contents.Progress) (*contents.Rows, error) {
	ironic, err := services.New("Ironic", s.URL, s.Token, s.HTTP)
	if err != nil {
		return nil, err
	}
	ironic.URL = strings.TrimSuffix(ironic.URL, "/v1")
	s.ironic = ironic
	rows, err := s.read(ctx, show)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.ironic.URL, err)
	}
	return rows, nil
}

func (s *Source) read(ctx context.Context, show contents.Progress) (*contents.Rows, error) {
	var last *contents.Rows
	for range rounds {
		r := &reading{source: s, show: show, rows: &contents.Rows{
			Kind: "ironic", Source: s.ironic.URL, Untold: Untold,
		}}
		if last != nil {
			r.total = uint64(len(last.Chassis) + len(last.Nodes) + len(last.NodeAllocations))
		}
		if err := r.all(ctx); err != nil {
			return nil, err
		}
		if last != nil && reflect.DeepEqual(last, r.rows) {
			last.Schema, last.ReadAt, last.Where = "API "+s.version, time.Now().UnixNano(), whereOf(last)
			return last, nil
		}
		last = r.rows
	}
	return nil, fmt.Errorf("%w: %d times in a row; stop those who write to Ironic, or import its database", services.ErrChanging, rounds)
}

func whereOf(rows *contents.Rows) func(contents.Table, int64) string {
	return func(table contents.Table, id int64) string {
		switch table {
		case contents.Chassis:
			return "chassis " + rows.Chassis[id-1].UUID
		case contents.Nodes:
			return "node " + rows.Nodes[id-1].UUID
		case contents.NodeTraits:
			return "node " + rows.Nodes[rows.NodeTraits[id-1].Node-1].UUID
		case contents.NodeAllocations:
			return "allocation " + rows.NodeAllocations[id-1].UUID
		}
		return fmt.Sprintf("%s row %d", table, id)
	}
}

// ask sends a GET and decodes the answer, if it is of a version that tells everything.
func (s *Source) ask(ctx context.Context, path string, into any) (*services.Answer, error) {
	answer, err := s.ironic.Get(ctx, path, "X-OpenStack-Ironic-API-Version", "latest")
	if err != nil {
		return nil, err
	}
	if err := answer.Decode(into); err != nil {
		return nil, err
	}
	s.version = answer.Header.Get("X-OpenStack-Ironic-API-Version")
	_, minor, _ := strings.Cut(s.version, ".")
	if known, err := strconv.Atoi(minor); err != nil || known < oldest {
		return nil, answer.Faultf("it is of version %q, and 1.%d is needed: import the database instead", s.version, oldest)
	}
	return answer, nil
}

type reading struct {
	source      *Source
	show        contents.Progress
	rows        *contents.Rows
	nodes       map[string]int64 // ids by uuid
	chassis     map[string]int64
	unknown     map[string]bool // members of nodes that a ledger has no place for
	done, total uint64
}

func (r *reading) all(ctx context.Context) error {
	r.nodes, r.chassis, r.unknown = make(map[string]int64), make(map[string]int64), make(map[string]bool)
	if err := pages(ctx, r, "/v1/chassis/detail", "chassis", r.addChassis); err != nil {
		return err
	}
	if err := pages(ctx, r, "/v1/nodes/detail", "nodes", r.addNode); err != nil {
		return err
	}
	if len(r.unknown) > 0 {
		r.rows.Unkept = []string{"nodes: " + strings.Join(slices.Sorted(maps.Keys(r.unknown)), ", ")}
	}
	return pages(ctx, r, "/v1/allocations", "allocations", r.addAllocation)
}

func pages[E interface{ id() string }](ctx context.Context, r *reading, path, name string, take func(E) error) error {
	for marker := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(page)}}
		if marker != "" {
			query.Set("marker", marker)
		}
		got := make(map[string]json.RawMessage)
		answer, err := r.source.ask(ctx, path+"?"+query.Encode(), &got)
		if err != nil {
			return err
		}
		var list []E
		if err := json.Unmarshal(got[name], &list); err != nil {
			return answer.Faultf("%w", err)
		}
		for _, one := range list {
			if err := take(one); err != nil {
				return answer.Faultf("%s: %w", one.id(), err)
			}
		}
		if r.done += uint64(len(list)); r.show != nil && r.total > 0 {
			r.show(min(r.done, r.total), r.total)
		}
		if _, more := got["next"]; !more || len(list) == 0 {
			return nil
		}
		if list[len(list)-1].id() == marker {
			return answer.Faultf("the page after %s is the same again", marker)
		}
		marker = list[len(list)-1].id()
	}
}

type chassis struct {
	UUID        string          `json:"uuid"`
	Description string          `json:"description"`
	Extra       json.RawMessage `json:"extra"`
	times
}

func (c chassis) id() string { return c.UUID }

type times struct {
	Created *time.Time `json:"created_at"`
	Updated *time.Time `json:"updated_at"`
}

func (t times) rows() contents.Times {
	return contents.Times{Created: nanoseconds(t.Created), Updated: nanoseconds(t.Updated)}
}

func nanoseconds(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixNano()
}

func (r *reading) addChassis(c chassis) error {
	r.chassis[c.UUID] = int64(len(r.rows.Chassis) + 1)
	r.rows.Chassis = append(r.rows.Chassis, contents.ChassisRow{
		ID: r.chassis[c.UUID], UUID: c.UUID, Description: c.Description, Extra: string(c.Extra), Times: c.rows(),
	})
	return nil
}

// node is an answer, by its members.
type node map[string]json.RawMessage

func (n node) id() string {
	var id string
	_ = json.Unmarshal(n["uuid"], &id) // addNode refuses what is no text
	return id
}

// Members of a node beside those that addNode reads and contents.NodeTexts.
var (
	// otherDetails are those that a ledger only stores.
	otherDetails = []string{"automated_clean", "retired", "network_data"}
	// derived follow from others.
	derived = []string{"allocation_uuid", "links", "ports", "portgroups", "states", "volume"}
)

func (r *reading) addNode(n node) error {
	row := contents.NodeRow{ID: int64(len(r.rows.Nodes) + 1), Details: make(map[string]any)}
	var chassis string
	var at struct{ created, updated, provision *time.Time }
	var traits []string
	var properties, extra, driver, instance json.RawMessage
	members := map[string]any{
		"uuid": &row.UUID, "name": &row.Name, "instance_uuid": &row.Instance, "parent_node": &row.Parent,
		"chassis_uuid": &chassis, "driver": &row.Driver, "resource_class": &row.ResourceClass, "owner": &row.Owner,
		"lessee": &row.Lessee, "provision_state": &row.ProvisionState, "power_state": &row.PowerState,
		"maintenance": &row.Maintenance, "maintenance_reason": &row.MaintenanceReason, "protected": &row.Protected,
		"traits": &traits, "created_at": &at.created, "updated_at": &at.updated, "provision_updated_at": &at.provision,
		"properties": &properties, "extra": &extra, "driver_info": &driver, "instance_info": &instance,
	}
	for name, into := range members {
		if value, has := n[name]; has {
			if err := json.Unmarshal(value, into); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	row.Properties, row.Extra = string(properties), string(extra)
	row.DriverInfo, row.InstanceInfo = string(driver), string(instance)
	row.Times = contents.Times{Created: nanoseconds(at.created), Updated: nanoseconds(at.updated)}
	row.ProvisionUpdated = nanoseconds(at.provision)
	if chassis != "" {
		id, known := r.chassis[chassis]
		if !known {
			id = -1 // it was made meanwhile, or is gone
		}
		row.Chassis = contents.Some(id)
	}
	if err := n.details(row.Details); err != nil {
		return err
	}
	for _, name := range traits {
		r.rows.NodeTraits = append(r.rows.NodeTraits, contents.NodeTraitRow{Node: row.ID, Trait: name})
	}
	for name := range n {
		_, read := members[name]
		if !read && !slices.Contains(slices.Concat(otherDetails, derived, contents.NodeTexts), name) {
			r.unknown[name] = true
		}
	}
	r.nodes[row.UUID] = row.ID
	r.rows.Nodes = append(r.rows.Nodes, row)
	return nil
}

func (n node) details(into map[string]any) error {
	for _, name := range slices.Concat(otherDetails, contents.NodeTexts) {
		var value any
		if text, has := n[name]; has {
			if err := json.Unmarshal(text, &value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		switch object, isObject := value.(map[string]any); {
		case value == nil || name == "retired" && value == false || isObject && len(object) == 0:
		default:
			into[name] = value
		}
	}
	return nil
}

type allocation struct {
	UUID          string          `json:"uuid"`
	Name          string          `json:"name"`
	State         string          `json:"state"`
	Owner         string          `json:"owner"`
	LastError     string          `json:"last_error"`
	ResourceClass string          `json:"resource_class"`
	Node          string          `json:"node_uuid"`
	Traits        []string        `json:"traits"`
	Candidates    []string        `json:"candidate_nodes"`
	Extra         json.RawMessage `json:"extra"`
	times
}

func (a allocation) id() string { return a.UUID }

func (r *reading) addAllocation(a allocation) error {
	row := contents.NodeAllocationRow{
		ID: int64(len(r.rows.NodeAllocations) + 1), UUID: a.UUID, Name: a.Name, State: a.State, Owner: a.Owner,
		LastError: a.LastError, ResourceClass: a.ResourceClass, Traits: a.Traits, Candidates: a.Candidates,
		Extra: string(a.Extra),
		Times: a.rows(),
	}
	if a.Node != "" {
		id, known := r.nodes[a.Node]
		if !known {
			id = -1 // it was made meanwhile, or is gone
		}
		row.Node = contents.Some(id)
	}
	r.rows.NodeAllocations = append(r.rows.NodeAllocations, row)
	return nil
}
