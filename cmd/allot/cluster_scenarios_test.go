package main_test

import (
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"testing"
	"time"
)

// scenariosEach is how many scenarios one cluster plays.
const scenariosEach = 10

// TestClusterFaults plays some short scenarios, and with "make cluster-faults"
// 200. ALLOT_CLUSTER_SEED replays one, and ALLOT_CLUSTER_SCENARIOS, such as
// 21-40, plays a range. The seed determines the actions and their order, but not
// how the processes react.
func TestClusterFaults(t *testing.T) {
	var results []result
	defer func() { tellClusterFaults(t, results) }()
	play := func(t *testing.T, c *faultyCluster, seed int64, length time.Duration, faults ...clusterFault) {
		began := time.Now()
		r := c.play(seed, length, faults...)
		results = append(results, r)
		t.Logf("seed %d: %s for %v: %d answers, %d open, longest gap %v, took %v", seed, r.fault, length, r.answered, r.unknown,
			r.gap.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		for _, wrong := range r.wrong {
			t.Errorf("ALLOT_CLUSTER_SEED=%d: %s: %s", seed, r.fault, wrong)
		}
		if len(r.wrong) > 0 {
			t.FailNow() // the cluster cannot play another scenario
		}
	}
	if seed := os.Getenv("ALLOT_CLUSTER_SEED"); seed != "" {
		n, err := strconv.ParseInt(seed, 10, 64)
		if err != nil {
			t.Fatalf("ALLOT_CLUSTER_SEED: %v", err)
		}
		length, faults := drawScenario(n)
		play(t, launchFaulty(t, binary, nil), n, length, faults...)
		return
	}
	scenarios, from := 200, 1
	if given := os.Getenv("ALLOT_CLUSTER_SCENARIOS"); given != "" {
		if _, err := fmt.Sscanf(given, "%d-%d", &from, &scenarios); err != nil {
			t.Fatalf("ALLOT_CLUSTER_SCENARIOS is not FIRST-LAST: %v", err)
		}
	}
	if os.Getenv("ALLOT_FAULTS") == "" {
		c := launchFaulty(t, binary, nil)
		for i, name := range quickFaults {
			play(t, c, int64(-1-i), time.Second, faultNamed(name))
		}
		return
	}
	for first := from; first <= scenarios; first += scenariosEach {
		t.Run(strconv.Itoa(first), func(t *testing.T) {
			c := launchFaulty(t, binary, nil)
			for seed := first; seed < first+scenariosEach && seed <= scenarios; seed++ {
				length, faults := drawScenario(int64(seed))
				play(t, c, int64(seed), length, faults...)
			}
		})
	}
}

// quickFaults are the faults after which a cluster goes on within seconds,
// because no stream has to elect a leader.
var quickFaults = []string{
	"a follower is cut off from the others",
	"a follower's process stands still",
	"the leader is cut off from the others",
	"the leader hears the others, and they do not hear it",
	"two replicas do not hear each other, the third hears both",
	"5 % of packets are lost",
	"packets take 0 to 100 ms, in any order",
	"kill -9 of a follower",
	"the leader's process stands still",
	"the leader's process runs a third of the time",
	"another leader is asked for each 1 to 2 s",
	"kill -9 of the leader",
}

// drawScenario returns the scenario of a seed: each fault in its turn, one time
// in four together with a compatible one.
func drawScenario(seed int64) (time.Duration, []clusterFault) {
	random := rand.New(rand.NewSource(seed))
	all := clusterFaults()
	faults := []clusterFault{all[int(seed)%len(all)]}
	length := time.Second + time.Duration(random.Intn(14_000))*time.Millisecond
	switch faults[0].name {
	case "the leader's process stands still", "a follower's process stands still":
		length = time.Second + time.Duration(random.Intn(29_000))*time.Millisecond
	}
	if random.Intn(4) == 0 {
		second := []string{"5 % of packets are lost", "packets take 0 to 100 ms, in any order", "a follower's disk is full"}
		if name := second[random.Intn(len(second))]; name != faults[0].name {
			faults = append([]clusterFault{faultNamed(name)}, faults...)
		}
	}
	return length, faults
}
