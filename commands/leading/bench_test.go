package leading_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/commands"
)

// messageBytes is the size of a commit of one allocation.
const messageBytes = 300

// BenchmarkReplicated compares commands on three replicas, all in this process,
// with JetStream alone: conditional publishes, one after the other, on another
// stream of the same servers with as many replicas. Each figure is relative to
// the first line of the same run.
func BenchmarkReplicated(b *testing.B) {
	g := &group{t: b, sync: true}
	g.start(nil)
	leader, follower := g.leader(), g.others()[0]
	raw := publishes(b, leader.conns[0])
	round := 0 // of those that -count asks for
	b.Run("publish", func(b *testing.B) {
		round++
		rate := per(b, 1, func(int) { raw() })
		for _, m := range []*member{leader, follower} {
			for _, submitters := range []int{1, 64, 256} {
				at := "leader"
				if m == follower {
					at = "follower"
				}
				got := per(b, submitters, func(i int) {
					outcome, err := m.Submit(context.Background(), commands.Submission{
						ID: commands.NewID(), Actor: "bench",
						Command: &commands.CreateTrait{Name: fmt.Sprintf("CUSTOM_%d_%s_%d_%d", round, m.name, submitters, i)},
					})
					if err != nil || outcome.Rejection != nil {
						b.Error(err, outcome.Rejection)
					}
				})
				b.ReportMetric(got/rate, fmt.Sprintf("%s-%d/publish", at, submitters))
			}
		}
	})
}

// publishes makes a stream, and returns what publishes on it.
func publishes(b *testing.B, nc *nats.Conn) func() {
	b.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	// The log's connection may publish on the subject of rejected commands.
	_, err = js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "RAW", Subjects: []string{"allot.rejected"}, Replicas: 3})
	if err != nil {
		b.Fatal(err)
	}
	body, last := make([]byte, messageBytes), uint64(0)
	return func() {
		ack, err := js.Publish(b.Context(), "allot.rejected", body, jetstream.WithExpectLastSequence(last))
		if err != nil {
			b.Fatal(err)
		}
		last = ack.Sequence
	}
}

// measured is how long one figure is measured.
const measured = 3 * time.Second

// per is how often something is done in a second by some side by side.
func per(b *testing.B, workers int, do func(i int)) float64 {
	b.Helper()
	var all sync.WaitGroup
	began := time.Now()
	counts := make([]int, workers)
	for w := range workers {
		all.Go(func() {
			for i := 0; time.Since(began) < measured; i++ {
				do(w + i*workers)
				counts[w]++
			}
		})
	}
	all.Wait()
	took, sum := time.Since(began), 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / took.Seconds()
}
