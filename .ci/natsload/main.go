// Command natsload asks a ledger over NATS as often as it can, for .ci/bench-http:
// each client has a connection of its own, and one request under way.
//
//	natsload NATS-URL REST-URL allocate|usages|candidates CLIENTS SECONDS
//
// It uses the providers that are there, and prints {"ops": N, "secs": S}.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

const project = "55555555-5555-4555-8555-555555555555"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 6 {
		log.Fatal("natsload NATS-URL REST-URL allocate|usages|candidates CLIENTS SECONDS")
	}
	clients, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	seconds, err := strconv.Atoi(os.Args[5])
	if err != nil {
		log.Fatal(err)
	}
	ask := requests[os.Args[3]]
	if ask == nil {
		log.Fatalf("%q is no kind of request", os.Args[3])
	}
	providers := listProviders(os.Args[2])
	var answers atomic.Int64
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for n := range clients {
		nc, err := nats.Connect(os.Args[1])
		if err != nil {
			log.Fatal(err)
		}
		c := client.New(nc, client.Options{})
		all.Go(func() {
			for i := n; ctx.Err() == nil; i++ {
				if err := ask(c, providers[i*7919%len(providers)]); err != nil {
					log.Fatal(err)
				}
				answers.Add(1)
			}
		})
	}
	all.Wait()
	fmt.Printf("{\"ops\": %d, \"secs\": 1e9, \"per_second\": %.0f}\n", answers.Load(), float64(answers.Load())/time.Since(began).Seconds())
}

var requests = map[string]func(*client.Client, ledger.UUID) error{
	"allocate": func(c *client.Client, provider ledger.UUID) error {
		_, err := c.Submit(context.Background(), &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
			Consumer: ledger.UUID(uuid.Must(uuid.NewV7())), Project: project, User: "u",
			Resources: []commands.ProviderAllocation{
				{Provider: provider, Class: "VCPU", Amount: 1}, {Provider: provider, Class: "MEMORY_MB", Amount: 1},
			},
		}}})
		return err
	},
	"usages": func(c *client.Client, _ ledger.UUID) error {
		_, err := c.Usages(context.Background(), wire.UsagesQuery{Project: project})
		return err
	},
	"candidates": func(c *client.Client, _ ledger.UUID) error {
		_, err := c.Candidates(context.Background(), wire.CandidatesQuery{
			Groups: []wire.CandidateGroup{{Resources: map[string]int64{"VCPU": 1, "MEMORY_MB": 512}}}, Limit: 100,
		})
		return err
	},
}

func listProviders(url string) (list []ledger.UUID) {
	req, err := http.NewRequest(http.MethodGet, url+"/resource_providers", nil)
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", "admin")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var found struct {
		Providers []struct{ UUID ledger.UUID } `json:"resource_providers"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&found); err != nil || len(found.Providers) == 0 {
		log.Fatalf("no providers: %v", err)
	}
	for _, p := range found.Providers {
		list = append(list, p.UUID)
	}
	return list
}
