// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
)

var (
	programs  = flag.Uint64("programs", 100, "random `programs` to compare with Apache ZooKeeper")
	firstSeed = flag.Uint64("seed", 1, "`seed` of the first of them")
)

// shrinkTime bounds the search for a smaller program.
const shrinkTime = 10 * time.Second

// programTick is the tick of both servers, and programTimeout the session timeout in milliseconds that clients ask for,
// the longest there is: nothing expires however slow the machine is.
const (
	programTick    = 30 * time.Second
	programTimeout = 600_000
)

// TestRandomProgramsAsApache plays random programs to Apache ZooKeeper and to this server, in lockstep, and fails with
// the first difference between their answers, after it has made the program smaller. The program of a seed is always the
// same:
//
//	go test -run '^TestRandomProgramsAsApache$' ./testing/zkserver -programs=1 -seed=4711
func TestRandomProgramsAsApache(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache ZooKeeper")
	}
	e := must.Get(ensemble.Start(t.Context(), ensemble.WithTick(programTick), ensemble.WithContainerCheckInterval(time.Hour)))(t)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	comparePrograms(t, newSubject(t, "Apache", e.Server(0).Addr()), startSubject(t, "zkserver"), *programs)
}

// TestRandomProgramsRepeat plays programs to two servers of ours: what they answer must not depend on chance.
func TestRandomProgramsRepeat(t *testing.T) {
	comparePrograms(t, startSubject(t, "one"), startSubject(t, "other"), min(*programs, 50))
}

// startSubject starts a server of ours.
func startSubject(t *testing.T, name string) *subject {
	t.Helper()
	srv := start(t, zkserver.WithTick(programTick), zkserver.WithContainerCheckInterval(time.Hour))
	return newSubject(t, name, srv.Addr())
}

// comparePrograms plays n programs.
func comparePrograms(t *testing.T, one, other *subject, n uint64) {
	t.Helper()
	for seed := *firstSeed; seed < *firstSeed+n; seed++ {
		if played := seed - *firstSeed; played%1000 == 0 && played > 0 {
			t.Logf("%d programs played", played)
		}
		p := generate(seed)
		difference := lockstep(t, p, one, other)
		if difference == "" {
			continue
		}
		deadline := time.Now().Add(shrinkTime)
		shrink(p, func(smaller program) bool {
			if time.Now().After(deadline) {
				return false
			}
			found := lockstep(t, smaller, one, other)
			if found != "" {
				difference = found
			}
			return found != ""
		})
		require.Fail(t, "the servers differ", "seed %d\n%s", seed, difference)
	}
}
