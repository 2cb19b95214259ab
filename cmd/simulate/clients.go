package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/cmd/simulate/judge"
	"github.com/allot-project/allot/cmd/simulate/machine"
)

// httpPort is where servers take requests.
const httpPort = 8778

// caller sends requests from a client's machine, on connections that it keeps.
type caller struct {
	*machine.Client
	patience time.Duration
	kept     map[uint32]*kept
}

type kept struct {
	*machine.Conn
	from *bufio.Reader
}

func newCaller(c *machine.Client, patience time.Duration) *caller {
	return &caller{Client: c, patience: patience, kept: map[uint32]*kept{}}
}

// answer is what a server answers.
type answer struct {
	status   int
	sequence uint64
	text     string
}

// field reads a field of an answer.
func (a *answer) field(name string, into any) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(a.text), &fields); err != nil {
		return err
	}
	return json.Unmarshal(fields[name], into)
}

// ask sends a request to a server; an error: the outcome is not known.
func (c *caller) ask(ip uint32, method, path, body string, headers ...string) (*answer, error) {
	conn := c.kept[ip]
	if conn == nil {
		made, err := c.Dial(ip, httpPort, c.patience)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		conn = &kept{made, bufio.NewReader(made)}
		c.kept[ip] = conn
	}
	conn.Patience = c.patience
	found, err := conn.ask(method, path, body, headers)
	if err != nil {
		delete(c.kept, ip)
		_ = conn.Close() // it has failed
	}
	return found, err
}

func (k *kept) ask(method, path, body string, headers []string) (*answer, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: admin\r\n", method, path)
	text.WriteString("OpenStack-API-Version: placement 1.39\r\n")
	for i := 0; i < len(headers); i += 2 {
		fmt.Fprintf(&text, "%s: %s\r\n", headers[i], headers[i+1])
	}
	if body != "" {
		fmt.Fprintf(&text, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	text.WriteString("\r\n" + body)
	if _, err := io.WriteString(k, text.String()); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(k.from, &http.Request{Method: method})
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.Close {
		err = io.ErrUnexpectedEOF
	}
	sequence, _ := strconv.ParseUint(response.Header.Get("Allot-Sequence"), 10, 64) // 0: it names none
	found := &answer{response.StatusCode, sequence, string(data)}
	if err != nil && response.StatusCode < http.StatusInternalServerError {
		return found, nil // the next request finds a closed connection
	}
	return found, nil
}

// newUUID draws one.
func newUUID(random *rand.Rand) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], random.Uint64())
	binary.BigEndian.PutUint64(id[8:], random.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}

// How much clients do.
const (
	providers = 3
	capacity  = 3
	places    = 512 // consumers that a provider sees
	tries     = 4   // how often a command is sent with its id
	doubtful  = 30 * time.Second
	patience  = 6 * time.Second
)

// ground is a provider over which clients compete.
type ground struct {
	uuid      string
	consumers [places]string
	next      int
}

// client is one client, which does one thing after the other.
type client struct {
	*caller
	run    *run
	ground int
	number int
	random *rand.Rand
	holds  []held
}

// held is a consumer that holds a unit, or may hold one. Only the client that does
// not know that gives the unit back.
type held struct {
	holder int
	doubt  time.Duration // until then it may still get one; 0: it has one
}

// live does one thing after the other, until the run's clients rest.
func (c *client) live() {
	g := c.run.grounds[c.ground]
	for !c.run.resting {
		d := judge.Deed{Provider: g.uuid, Client: c.number, Server: (c.number + c.random.IntN(4)/3) % len(c.run.servers)}
		switch n := c.random.IntN(10); {
		case n < 4 && len(c.holds) < 3 && g.next < places:
			d.Kind, d.ID, d.Holder = "take", newUUID(c.random), g.next
			g.next++
		case n < 7 && len(c.holds) > 0:
			d.Kind, d.ID, d.Holder = "give", newUUID(c.random), c.holds[0].holder
		case n < 8:
			d.Kind = "candidates"
		case n < 9 && g.next > 0:
			d.Kind, d.Holder = "held", c.random.IntN(g.next)
		default:
			d.Kind = "used"
		}
		c.do(&d)
		c.Sleep(time.Duration(50+c.random.IntN(300)) * time.Millisecond)
	}
}

// do sends a request, and a command again through other servers while it is not
// known what became of it.
func (c *client) do(d *judge.Deed) {
	d.Call = int64(c.Now())
	for try := range tries {
		d.Known = c.send(d, (d.Server+try)%len(c.run.servers))
		if d.Known || d.ID == "" || c.random.IntN(5) == 0 {
			break
		}
		d.Repeated = true
		c.Sleep(time.Duration(c.random.IntN(1000)) * time.Millisecond)
	}
	d.End = int64(c.Now())
	c.remember(d)
	c.run.deeds = append(c.run.deeds, *d)
	if d.Known && d.ID != "" && d.Output == 1 {
		c.run.acked(time.Duration(d.End))
	}
}

// remember notes what must be given back.
func (c *client) remember(d *judge.Deed) {
	one := held{holder: d.Holder}
	if d.Kind == "give" {
		one, c.holds = c.holds[0], c.holds[1:]
	}
	switch {
	case d.Kind == "take" && (!d.Known || d.Repeated && d.Output == 0):
		one.doubt = c.Now() + doubtful
		c.holds = append(c.holds, one)
	case d.Kind == "take" && d.Output == 1, d.Kind == "give" && !d.Known,
		d.Kind == "give" && d.Output == 0 && c.Now() < one.doubt:
		c.holds = append(c.holds, one)
	}
}

// send sends a request once; false: its client does not know the outcome.
func (c *client) send(d *judge.Deed, server int) bool {
	g := c.run.grounds[c.ground]
	method, path, body := http.MethodGet, "/resource_providers/"+g.uuid+"/usages", ""
	var headers []string
	if d.ID != "" {
		headers = []string{"Allot-Command-Id", d.ID}
	}
	switch consumer := g.consumers[d.Holder]; d.Kind {
	case "take":
		method, path, body = http.MethodPut, "/allocations/"+consumer, allocation(g.uuid)
	case "give":
		method, path = http.MethodDelete, "/allocations/"+consumer
	case "held":
		path = "/allocations/" + consumer
	case "candidates":
		path = "/allocation_candidates?resources=VCPU:1&in_tree=" + g.uuid
	}
	found, err := c.ask(c.run.servers[server].IP, method, path, body, headers...)
	if err != nil {
		c.run.tell(c.Name, "%s of consumer %d at %s: %v", d.Kind, d.Holder, c.run.servers[server].Name, err)
		return false
	}
	if found.status == http.StatusServiceUnavailable {
		c.run.tell(c.Name, "%s of consumer %d at %s: 503 %s", d.Kind, d.Holder, c.run.servers[server].Name, clip(found.text))
		return false
	}
	if err := d.Understand(found.status, found.text, capacity); err != nil {
		if !d.Repeated {
			c.run.complain("%s: %s of consumer %d: %v", c.run.servers[server].Name, d.Kind, d.Holder, err)
		}
		return false
	}
	c.run.tell(c.Name, "%s of consumer %d at %s: %d (%s)", d.Kind, d.Holder, c.run.servers[server].Name, d.Output, d.ID)
	return true
}

func allocation(provider string) string {
	return `{"allocations":{"` + provider + `":{"resources":{"VCPU":1}}},` +
		`"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}`
}

// readStale reads one server, whose answers may be old, but never go back while its
// process lives.
func (c *client) readStale(server int) {
	var last uint64
	s := c.run.servers[server]
	for life := s.lives; !c.run.resting; c.Sleep(200 * time.Millisecond) {
		path := "/resource_providers/" + c.run.grounds[0].uuid
		found, err := c.ask(s.IP, http.MethodGet, path, "", "Allot-Consistency", "stale")
		if s.lives != life {
			life, last = s.lives, 0
			continue
		}
		if err != nil || found.status != http.StatusOK {
			continue
		}
		if found.sequence < last {
			c.run.complain("%s: a stale read shows %d after %d", s.Name, found.sequence, last)
		}
		last = found.sequence
	}
}

// clip is the beginning of a text.
func clip(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 200)]
}
