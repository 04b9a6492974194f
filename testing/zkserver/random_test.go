package zkserver_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
)

var (
	programs  = flag.Uint64("programs", 500, "random `programs` to compare with Apache ZooKeeper")
	firstSeed = flag.Uint64("seed", 1, "`seed` of the first of them")
)

// shrinkTime bounds the search for a smaller program.
const shrinkTime = 10 * time.Second

// programTimeout is the session timeout of programs in milliseconds: nothing expires however slow the machine is.
const programTimeout = 600_000

// TestRandomProgramsAsApache plays random programs to Apache ZooKeeper and to this server, in lockstep, and fails with
// the first difference between their answers, after it has made the program smaller. The program of a seed is always the
// same:
//
//	go test -run '^TestRandomProgramsAsApache$' ./testing/zkserver -programs=1 -seed=4711
func TestRandomProgramsAsApache(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache ZooKeeper")
	}
	const tick = programTimeout * time.Millisecond / 20
	e, err := ensemble.Start(t.Context(), ensemble.WithTick(tick), ensemble.WithContainerCheckInterval(time.Hour))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	srv := start(t, zkserver.WithTick(tick), zkserver.WithContainerCheckInterval(time.Hour))
	comparePrograms(t, newSubject(t, "Apache", e.Server(0).Addr()), newSubject(t, "zkserver", srv.Addr()), *programs)
}

// TestRandomProgramsRepeat plays programs to two servers of ours: what they answer must not depend on chance.
func TestRandomProgramsRepeat(t *testing.T) {
	one, other := start(t), start(t)
	comparePrograms(t, newSubject(t, "one", one.Addr()), newSubject(t, "other", other.Addr()), min(*programs, 200))
}

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
