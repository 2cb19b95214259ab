package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/ledger"
)

// repairs makes the follower as the leader is.
type repairs struct{ *Shadow }

// repairMissed brings a thing in line. What fails is tried again after the others, because
// it may need them: a provider cannot go before its consumers.
func (s repairs) repairMissed(ctx context.Context, m missed) {
	changed, err := s.repairBetween(ctx, m.of)
	switch {
	case ctx.Err() != nil: // the next start compares everything
	case err == nil:
		outcome := "same"
		if changed {
			outcome = "mended"
		}
		s.metrics.repaired.WithLabelValues(outcome).Inc()
		if s.watch.repaired(m.of, changed && m.ask) {
			s.config.Logger.Info("changed behind the proxy, and brought in line", "what", string(m.of), "lead", s.Lead().String())
		}
	case errors.Is(err, errBusy):
		s.queue.missLater(busyPause, m)
	case errors.Is(err, errAway): // that is no reason to give up
		s.queue.missLater(0, m)
		pause(ctx, longestPause)
	case m.tries+1 < mostTries && !errors.Is(err, errUnseen):
		m.tries++
		s.queue.missLater(refusedPause, m)
	default:
		s.metrics.repaired.WithLabelValues("failed").Inc()
		if s.watch.gaveUp(m.of, err) {
			s.config.Logger.Warn("cannot be brought in line; it is tried again every minute", "what", string(m.of), "error", err)
		}
	}
}

// repairBetween repairs a thing that no write is under way to. Writes do not wait for it. If
// one comes meanwhile, the follower may have its outcome before it has the write itself;
// then the write's own answer means nothing.
func (s repairs) repairBetween(ctx context.Context, what Resource) (changed bool, err error) {
	if s.locks.busy(what) || s.queue.has(what) {
		return false, errBusy
	}
	changed, err = s.repair(ctx, what, 0)
	s.queue.doubt(what)
	return changed, err
}

// repair makes a thing at the follower as it is at the leader. It reports whether it changed anything.
func (s repairs) repair(ctx context.Context, what Resource, depth int) (changed bool, err error) {
	kind, id := what.split()
	switch kind {
	case kindClass:
		return s.repairName(ctx, "/resource_classes/"+url.PathEscape(id))
	case kindTrait:
		return s.repairName(ctx, "/traits/"+url.PathEscape(id))
	case kindProvider:
		return s.repairProvider(ctx, id, depth)
	case kindConsumer:
		return s.repairConsumer(ctx, id)
	case kindUsage:
		return false, errors.Join(s.seesAll(ctx, Placement, id), s.seesAll(ctx, Allot, id))
	case kindGeneration:
		return s.level(ctx, "/resource_providers/"+url.PathEscape(id))
	}
	return false, fmt.Errorf("%w: what is %q?", errRefused, what)
}

func (s repairs) both(ctx context.Context, path string) (leads, follows document, err error) {
	if leads, err = s.sides.own(ctx, s.Lead(), http.MethodGet, path, nil); err != nil {
		return nil, nil, err
	}
	follows, err = s.sides.own(ctx, s.Lead().Other(), http.MethodGet, path, nil)
	return leads, follows, err
}

func (s repairs) change(ctx context.Context, method, path string, body document) error {
	answer, err := s.sides.own(ctx, s.Lead().Other(), method, path, body)
	if err == nil && answer == nil && method != http.MethodDelete {
		return fmt.Errorf("%w: %s: %s %s: 404", errRefused, s.Lead().Other(), method, path)
	}
	return err
}

func (s repairs) repairName(ctx context.Context, path string) (bool, error) {
	leads, follows, err := s.both(ctx, path)
	switch {
	case err != nil || (leads == nil) == (follows == nil):
		return false, err
	case leads == nil:
		return true, s.change(ctx, http.MethodDelete, path, nil)
	}
	return true, s.change(ctx, http.MethodPut, path, nil)
}

func (s repairs) repairConsumer(ctx context.Context, id string) (bool, error) {
	path := "/allocations/" + url.PathEscape(id)
	leads, follows, err := s.both(ctx, path)
	if err != nil {
		return false, err
	}
	want, have := held(leads), held(follows)
	if reflect.DeepEqual(want, have) {
		return false, nil
	}
	if len(want) == 0 {
		if err := s.mayRelease(ctx, follows); err != nil {
			return false, err
		}
	}
	for _, answer := range []document{leads, follows} {
		allocations, _ := answer["allocations"].(document)
		for provider := range allocations {
			s.queue.miss(resource(kindGeneration, provider))
		}
	}
	if len(want) == 0 {
		return true, s.change(ctx, http.MethodDelete, path, nil)
	}
	minor := int(s.sides.minor.Load())
	body := some(leads, "allocations", "project_id", "user_id", "consumer_type")
	if body["consumer_type"] == ledger.UnknownType {
		// From 1.38 on a consumer has to have a type, and none can be taken away.
		delete(body, "consumer_type")
		minor = min(minor, typesSince-1)
		if have != nil && have["consumer_type"] != ledger.UnknownType {
			if err := s.change(ctx, http.MethodDelete, path, nil); err != nil {
				return false, err
			}
			have = nil
		}
	}
	body["consumer_generation"] = nil // there is none yet
	if have != nil {
		body["consumer_generation"] = follows["consumer_generation"]
	}
	allocations, _ := body["allocations"].(document)
	for _, of := range allocations {
		if held, is := of.(document); is {
			delete(held, "generation")
		}
	}
	_, err = s.sides.ownBelow(ctx, s.Lead().Other(), http.MethodPut, path, body, minor)
	return true, err
}

// errUnseen means that more is used of a provider than a side shows allocations of.
var errUnseen = errors.New("allocations are not shown")

// mayRelease returns an error if what a consumer holds at the follower may be held at the
// leader, too, which does not show allocations of a consumer that has no row.
func (s repairs) mayRelease(ctx context.Context, follows document) error {
	allocations, _ := follows["allocations"].(document)
	for _, provider := range slices.Sorted(maps.Keys(allocations)) {
		if err := s.seesAll(ctx, s.Lead(), provider); err != nil {
			return err
		}
	}
	return nil
}

// seesAll returns an error if more is used of a provider than a side shows allocations of.
// A release raises no generation, so the allocations are read before the usages, which only
// become less then. The generation that is read last shows that nothing was allocated meanwhile.
func (s repairs) seesAll(ctx context.Context, side Side, provider string) error {
	const member = "resource_provider_generation"
	path := "/resource_providers/" + url.PathEscape(provider)
	var answers [3]document
	for i, part := range []string{"/allocations", "/usages", "/usages"} {
		var err error
		if answers[i], err = s.sides.own(ctx, side, http.MethodGet, path+part, nil); err != nil || answers[i] == nil {
			return err
		}
	}
	seen := make(map[string]int64)
	allocations, _ := answers[0]["allocations"].(document)
	for _, of := range allocations {
		holder, _ := of.(document)
		resources, _ := holder["resources"].(document)
		for class, amount := range resources {
			seen[class] += numeric(amount)
		}
	}
	usages, _ := answers[1]["usages"].(document)
	for _, class := range slices.Sorted(maps.Keys(usages)) {
		used := numeric(usages[class])
		switch {
		case used <= seen[class]:
		case answers[0][member] != answers[1][member] || answers[1][member] != answers[2][member]:
			return errBusy
		default:
			return fmt.Errorf("%w by %s: provider %s, %s: %d used, %d seen; nothing is released because of that: "+
				"placement-manage db online_data_migrations makes the rows of consumers that they lack",
				errUnseen, side, provider, class, used, seen[class])
		}
	}
	return nil
}

// held is what a consumer holds, without generations; nil: nothing.
func held(answer document) document {
	allocations, _ := answer["allocations"].(document)
	if len(allocations) == 0 {
		return nil
	}
	all := some(answer, "project_id", "user_id", "consumer_type")
	for provider, of := range allocations {
		if member, is := of.(document); is {
			all[provider] = member["resources"]
		}
	}
	return all
}

func some(from document, members ...string) document {
	picked := make(document, len(members))
	for _, name := range members {
		if value, has := from[name]; has {
			picked[name] = value
		}
	}
	return picked
}

// mostDeep is how many ancestors of a provider are made with it.
const mostDeep = 64

func (s repairs) repairProvider(ctx context.Context, id string, depth int) (changed bool, err error) {
	path := "/resource_providers/" + url.PathEscape(id)
	leads, follows, err := s.both(ctx, path)
	if err != nil || leads == nil && follows == nil {
		return false, err
	}
	if leads == nil {
		return true, s.change(ctx, http.MethodDelete, path, nil)
	}
	body := some(leads, "name", "parent_provider_uuid")
	if parent, has := body["parent_provider_uuid"].(string); has && depth < mostDeep {
		if _, err := s.repair(ctx, resource(kindProvider, parent), depth+1); err != nil {
			return false, err
		}
	}
	switch {
	case follows == nil:
		body["uuid"] = leads["uuid"]
		changed, err = true, s.change(ctx, http.MethodPost, "/resource_providers", body)
	case !reflect.DeepEqual(body, some(follows, "name", "parent_provider_uuid")):
		changed, err = true, s.change(ctx, http.MethodPut, path, body)
	}
	for _, part := range []string{"traits", "inventories", "aggregates"} {
		if err != nil {
			return changed, err
		}
		var mended bool
		mended, err = s.repairPart(ctx, path, part)
		changed = changed || mended
	}
	if err == nil && (changed || numeric(leads["generation"]) != numeric(follows["generation"])) {
		s.queue.miss(resource(kindGeneration, id))
	}
	return changed, err
}

// repairPart brings inventories, traits or aggregates of a provider in line.
func (s repairs) repairPart(ctx context.Context, path, part string) (bool, error) {
	leads, follows, err := s.both(ctx, path+"/"+part)
	if err != nil || leads == nil || follows == nil {
		return false, err
	}
	want, have := plain(leads[part]), plain(follows[part])
	if text(want) == text(have) {
		return false, nil
	}
	if err := s.nameParts(ctx, part, leads[part]); err != nil {
		return false, err
	}
	return true, s.change(ctx, http.MethodPut, path+"/"+part, document{
		"resource_provider_generation": follows["resource_provider_generation"], part: leads[part],
	})
}

// nameParts makes the classes and traits that a provider has.
func (s repairs) nameParts(ctx context.Context, part string, value any) error {
	var names []Resource
	switch v := value.(type) {
	case document:
		for class := range v {
			names = append(names, resource(kindClass, class))
		}
	case []any:
		for _, trait := range v {
			if name, is := trait.(string); is && part == "traits" {
				names = append(names, resource(kindTrait, name))
			}
		}
	}
	for _, name := range names {
		if _, id := name.split(); !strings.HasPrefix(id, "CUSTOM_") {
			continue
		}
		if _, err := s.repair(ctx, name, 0); err != nil {
			return err
		}
	}
	return nil
}

// errBusy means that a thing cannot be brought in line while clients write.
var errBusy = errors.New("clients write")

const (
	mostLevels   = 100 // how far a generation is raised at once
	busyPause    = 100 * time.Millisecond
	refusedPause = 2 * time.Second
)

// level raises the generation of the follower's provider to the leader's, by writing its
// inventories as they are. A write that the leader has and the follower not yet would raise
// it once more, so level needs a moment without one. A higher generation stays: clients
// then read it again after a change of the lead, as after any conflict.
func (s repairs) level(ctx context.Context, path string) (changed bool, err error) {
	const member = "resource_provider_generation"
	passed := s.gate.passed.Load()
	if !s.gate.quiet() || s.queue.length().waiting > 0 {
		return false, errBusy
	}
	leads, follows, err := s.both(ctx, path+"/inventories")
	if err != nil || leads == nil || follows == nil {
		return false, err
	}
	missing := numeric(leads[member]) - numeric(follows[member])
	if missing <= 0 {
		return false, nil
	}
	if !s.gate.quiet() || s.gate.passed.Load() != passed || s.queue.length().waiting > 0 {
		return false, errBusy
	}
	for range min(missing, mostLevels) {
		body := some(follows, member, "inventories")
		follows, err = s.sides.own(ctx, s.Lead().Other(), http.MethodPut, path+"/inventories", body)
		if err != nil || follows == nil {
			return changed, err
		}
		changed = true
	}
	if missing > mostLevels {
		return changed, errBusy // go on after what else there is to do
	}
	return changed, nil
}

func numeric(value any) int64 {
	number, _ := value.(json.Number)
	n, err := number.Int64()
	if err != nil {
		return 0
	}
	return n
}
