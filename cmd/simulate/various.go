package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/allot-project/allot/cmd/simulate/judge"
)

// The pool is what commands of every kind are about. No other client holds anything there.
const (
	pools        = 3 // providers
	poolCapacity = 8 // of MEMORY_MB, at first
	nodes        = 2
	cardSlices   = 4 // of the card; a whole device takes all of them
)

// various is a client that sends commands of every kind, over NATS and over HTTP.
type various struct {
	*caller
	run    *run
	random *rand.Rand
	nats   map[uint32]*requester

	holds    []string // consumers that may hold something
	shared   []string // reservations on which others may draw
	reserved []string // consumers that may have reserved something
	taken    []string // node allocations
}

// pool has the names in the pool.
type pool struct {
	providers  [pools]string
	nodes      [nodes]string
	rack, card string
}

func newPool(random *rand.Rand) *pool {
	p := new(pool)
	for i := range p.providers {
		p.providers[i] = newUUID(random)
	}
	for i := range p.nodes {
		p.nodes[i] = newUUID(random)
	}
	p.rack, p.card = newUUID(random), newUUID(random)
	return p
}

// make makes what is in the pool.
func (p *pool) make(v *various) error {
	for _, uuid := range p.providers {
		v.insist("CreateProvider", `{"provider":%q,"name":%q}`, uuid, uuid)
		v.insist("ReplaceInventories", `{"provider":%q,"inventories":[{"class":"MEMORY_MB","total":%d}]}`, uuid, poolCapacity)
		v.insist("ReplaceProviderAggregates", `{"provider":%q,"aggregates":[%q]}`, uuid, p.rack)
	}
	v.insist("SetTopology", `{"name":"fabric","topology":{"levels":["rack"],"members":{%q:{"level":"rack","name":"r"}}}}`, p.rack)
	v.insist("CreateProvider", `{"provider":%q,"name":"card"}`, p.card)
	v.insist("ReplaceProviderCounters", `{"provider":%q,"counters":[{"name":"SLICE","total":%d}]}`, p.card, cardSlices)
	for i, class := range []string{"PGPU", "VGPU"} {
		uuid := newUUID(v.random)
		v.insist("CreateProvider", `{"provider":%q,"name":%q,"parent":%q}`, uuid, class, p.card)
		v.insist("ReplaceInventories", `{"provider":%q,"inventories":[{"class":%q,"total":%d}]}`, uuid, class, cardSlices)
		v.insist("ReplaceProviderCounters", `{"provider":%q,"draws":[{"class":%q,"counter":"SLICE","amount":%d}]}`,
			uuid, class, []int{cardSlices, 1}[i])
	}
	for _, uuid := range p.nodes {
		v.insist("CreateNode", `{"node":%q,"driver":"fake-hardware","resource_class":"metal"}`, uuid)
		v.insist("SetNodeProvisionState", `{"node":%q,"target":"manage"}`, uuid)
		v.insist("SetNodeProvisionState", `{"node":%q,"target":"provide"}`, uuid)
	}
	unknown := make(map[string]bool) // commands of which one may have been carried out, and was sent again with another id
	for _, c := range v.run.commands {
		if unknown[c.Name] = unknown[c.Name] || !c.Accepted && c.Refusal == ""; !c.Accepted && !unknown[c.Name] {
			return fmt.Errorf("%s was refused: %s", c.Name, c.Refusal)
		}
	}
	return nil
}

// insist sends a command until it is answered.
func (v *various) insist(name, format string, args ...any) {
	for v.do(name, fmt.Sprintf(format, args...)) == nil {
		v.Sleep(300 * time.Millisecond)
	}
}

// live sends one command after the other, until the run's clients rest.
func (v *various) live() {
	for !v.run.resting {
		v.step()
		v.Sleep(time.Duration(50+v.random.IntN(250)) * time.Millisecond)
	}
}

// take removes one of a list.
func (v *various) take(list *[]string) (one string) {
	i := v.random.IntN(len(*list))
	one = (*list)[i]
	*list = append((*list)[:i], (*list)[i+1:]...)
	return one
}

func (v *various) step() {
	p, consumer := v.run.pool, newUUID(v.random)
	project := fmt.Sprintf("project%d", v.random.IntN(2))
	holder := fmt.Sprintf(`"consumer":%q,"project":%q,"user":"u","type":"INSTANCE","generation":null`, consumer, project)
	held := fmt.Sprintf(`{%s,"resources":[{"provider":%q,"class":"MEMORY_MB","amount":%d}]}`,
		holder, p.providers[v.random.IntN(pools)], 1+v.random.IntN(3))
	asked := fmt.Sprintf(`"requests":[{"groups":[{"resources":{"MEMORY_MB":%d}}]}]`, 1+v.random.IntN(2))
	allocate := `{"allocations":[` + held + `]}`
	switch n := v.random.IntN(27); {
	case n == 26: // all or none
		v.holds = append(v.holds, consumer)
		v.do("Batch", fmt.Sprintf(`{"atomic":true,"commands":[{"command":"AllocateForConsumers","body":%s},`+
			`{"command":"SetLimit","body":{"project":%q,"class":"MEMORY_MB","most":%d}}]}`, allocate, project, 4+v.random.IntN(8)))
	case n < 3:
		v.holds = append(v.holds, consumer)
		v.do("AllocateForConsumers", allocate)
	case n < 6:
		v.holds = append(v.holds, consumer)
		v.do("Claim", `{`+asked+`,"for":[{`+holder+`}],"prefer":{"order":"spread"}}`)
	case n < 8:
		other := newUUID(v.random)
		v.holds = append(v.holds, consumer, other)
		second := fmt.Sprintf(`{"consumer":%q,"project":%q,"user":"u","type":"INSTANCE","generation":null}`, other, project)
		v.do("Claim", `{`+asked+`,"for":[{`+holder+`},`+second+`],"gang":[{"by":"provider","rule":"apart"}]}`)
	case n < 10:
		v.reserved = append(v.reserved, consumer)
		v.do("Reserve", fmt.Sprintf(`{"allocations":[%s],"seconds":%d}`, held, 2+v.random.IntN(20)))
	case n < 12 && len(v.reserved) > 0:
		one := v.take(&v.reserved)
		if v.random.IntN(2) == 0 {
			v.do("CancelReservation", fmt.Sprintf(`{"consumer":%q}`, one))
			break
		}
		v.holds = append(v.holds, one)
		v.do("ConfirmReservation", fmt.Sprintf(`{"consumer":%q}`, one))
	case n < 16 && len(v.holds) > 0:
		v.do("ReleaseConsumer", fmt.Sprintf(`{"consumer":%q}`, v.take(&v.holds)))
	case n < 17:
		v.do("SetLimit", fmt.Sprintf(`{"project":%q,"class":"MEMORY_MB","most":%d}`, project, 2+v.random.IntN(12)))
	case n < 18:
		v.reshape()
	case n < 19:
		v.taken = append(v.taken, consumer)
		v.do("RequestNodeAllocation", fmt.Sprintf(`{"allocation":%q,"resource_class":"metal"}`, consumer))
	case n < 21:
		v.holds = append(v.holds, consumer)
		v.do("Claim", `{"alternatives":[[{"groups":[{"resources":{"PGPU":1}}]}],[{"groups":[{"resources":{"VGPU":1}}]}]],"for":[{`+
			holder+`}]}`)
	case n < 22:
		v.holds = append(v.holds, consumer) // and its second one, which stays
		v.do("Claim", `{`+asked+`,"for":[{`+holder+`,"count":2}],"gang":[{"topology":"fabric","within":"rack","slices":2}]}`)
	case n < 23:
		v.shared = append(v.shared, consumer)
		v.do("Reserve", fmt.Sprintf(`{"allocations":[%s],"seconds":30,"projects":["project0","project1"]}`, held))
	case n < 25 && len(v.shared) > 0:
		v.holds = append(v.holds, consumer)
		v.do("Claim", `{`+asked+`,"for":[{`+holder+fmt.Sprintf(`,"from_reservation":%q}]}`, v.shared[len(v.shared)-1]))
	case len(v.taken) > 0:
		v.do("ReleaseNodeAllocation", fmt.Sprintf(`{"allocation":%q}`, v.take(&v.taken)))
	}
}

// reshape gives two providers other inventories at once, over HTTP.
func (v *various) reshape() {
	var text string
	for i, j := range v.random.Perm(pools)[:2] {
		uuid := v.run.pool.providers[j]
		found, err := v.ask(v.run.servers[v.random.IntN(servers)].IP, http.MethodGet, "/resource_providers/"+uuid, "")
		var generation int64
		if err != nil || found.status != http.StatusOK || found.field("generation", &generation) != nil {
			return
		}
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`%q:{"resource_provider_generation":%d,"inventories":{"MEMORY_MB":{"total":%d}}}`,
			uuid, generation, poolCapacity-2+v.random.IntN(5))
	}
	v.do("Reshape", `{"inventories":{`+text+`},"allocations":{}}`)
}

// do sends a command, again with its id while it is not known what became of it; nil: its
// client never knew.
func (v *various) do(name, body string) *judge.Command {
	d := judge.Command{Name: name, ID: newUUID(v.random)}
	first := v.random.IntN(servers)
	for try := range tries {
		s := v.run.servers[(first+try)%servers]
		err := v.send(s, &d, body)
		if err == nil {
			break
		}
		v.run.tell(v.Name, "%s at %s: %v", name, s.Name, err)
		d.Repeated = true
		v.Sleep(time.Duration(v.random.IntN(1000)) * time.Millisecond)
	}
	v.run.commands = append(v.run.commands, d)
	if !d.Accepted && d.Refusal == "" {
		return nil
	}
	v.run.tell(v.Name, "%s %s: accepted %v %s", name, d.ID, d.Accepted, d.Refusal)
	return &d
}

// send sends a command once; an error: what became of it is not known.
func (v *various) send(s *server, d *judge.Command, body string) error {
	if d.Name == "Reshape" {
		found, err := v.ask(s.IP, http.MethodPost, "/reshaper", body, "Allot-Command-Id", d.ID)
		switch {
		case err != nil:
			return err
		case found.status == http.StatusServiceUnavailable:
			return fmt.Errorf("503 %s", clip(found.text))
		case found.status == http.StatusNoContent:
			d.Accepted, d.Recorded = true, true
		default:
			d.Refusal = fmt.Sprintf("%d %s", found.status, clip(found.text))
		}
		return nil
	}
	nats := v.nats[s.IP]
	if nats == nil {
		made, err := newRequester(v.Client, s.IP, patience)
		if err != nil {
			return err
		}
		nats, v.nats[s.IP] = made, made
	}
	found, err := nats.ask(d.Name, d.ID, body)
	if err != nil {
		delete(v.nats, s.IP)
		_ = nats.conn.Close() // it has failed
		return err
	}
	switch {
	case found.Error != nil && found.Error.Retry && found.Error.Code != "internal":
		return fmt.Errorf("%s: %s", found.Error.Code, found.Error.Message)
	case found.Error != nil:
		v.run.complain("%s of %s: %s: %s", d.Name, body, found.Error.Code, found.Error.Message)
		d.Refusal = found.Error.Message
	case found.Rejection != nil:
		d.Refusal = found.Rejection.Code
	default:
		d.Accepted, d.Recorded = true, !found.Nothing
	}
	return nil
}
