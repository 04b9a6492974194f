package locks_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

func env(name string, or int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return or
}

type trial struct {
	policy  framework.ErrorPolicy
	timeout time.Duration
	busy    bool
	lease   *locks.Lease
	mutex   *locks.InterProcessMutex
	lost    time.Time
	entered time.Time
	overlap bool
	ended   chan struct{}
}

func TestExperiment(t *testing.T) {
	tick := 500 * time.Millisecond
	syncLimit := env("SYNC", 6)
	n := env("N", 10)
	d27 := os.Getenv("D27") != ""
	servers := zktest.NewEnsemble(t, 3, ensemble.WithNetwork(), ensemble.WithTick(tick), ensemble.WithSyncLimit(syncLimit))
	leader, err := servers.Leader(t.Context())
	require.NoError(t, err)
	followers, err := servers.Followers(t.Context())
	require.NoError(t, err)
	net := servers.Network()
	holderHost, err := net.Join("holders")
	require.NoError(t, err)
	rivalHost, err := net.Join("rivals")
	require.NoError(t, err)
	side, rivalAddr := followers[0], leader.Addr()+","+followers[1].Addr()
	if d27 {
		side, rivalAddr = leader, followers[0].Addr()+","+followers[1].Addr()
	}
	rival := zktest.Client(t, rivalAddr, framework.WithDialer(rivalHost.DialContext), framework.WithServerTiming(tick, syncLimit))

	var trials []*trial
	var wg sync.WaitGroup
	began := time.Now()
	for _, timeout := range []time.Duration{time.Duration(env("T1", 2000)) * time.Millisecond, time.Duration(env("T2", 4000)) * time.Millisecond} {
		for policy := framework.StandardErrorPolicy; policy <= framework.QuorumErrorPolicy; policy++ {
			for i := range n {
				tr := &trial{policy: policy, timeout: timeout, busy: i%2 == 1 && os.Getenv("IDLE") == "", ended: make(chan struct{})}
				trials = append(trials, tr)
				path := fmt.Sprintf("/cutoff/%v-%v-%d", timeout, policy, i)
				wg.Go(func() {
					time.Sleep(time.Duration(rand.IntN(2000)) * time.Millisecond)
					client := zktest.Client(t, side.Addr(), framework.WithDialer(holderHost.DialContext), framework.WithServerTiming(tick, syncLimit),
						framework.WithSessionTimeout(timeout))
					tr.lease = acquire(t, newMutex(t, client, path, locks.WithErrorPolicy(policy)))
					if tr.busy {
						go func() {
							for tr.lease.Err() == nil && t.Context().Err() == nil {
								ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
								_ = client.Set(ctx, tr.lease.Path(), nil)
								cancel()
								time.Sleep(150 * time.Millisecond)
							}
						}()
					}
					go func() {
						<-tr.lease.Done()
						tr.lost = time.Now()
						close(tr.ended)
					}()
					tr.mutex = newMutex(t, rival, path)
				})
			}
		}
	}
	wg.Wait()
	t.Log("connected in", time.Since(began))
	var done sync.WaitGroup
	for _, tr := range trials {
		done.Go(func() {
			theirs, err := tr.mutex.Acquire(withLimit(t))
			tr.entered = time.Now()
			tr.overlap = tr.lease.Err() == nil
			if err != nil {
				t.Error(err)
				return
			}
			<-tr.ended
			_ = theirs.Release(t.Context())
		})
	}
	time.Sleep(5 * time.Second)
	for _, tr := range trials {
		if tr.lease.Err() != nil {
			t.Logf("%v %v early end: %v", tr.policy, tr.timeout, tr.lease.Err())
		}
	}
	net.Isolate(side.Host(), holderHost)
	cut := time.Now()
	if d27 {
		var wg sync.WaitGroup
		for _, f := range followers {
			require.NoError(t, f.Kill())
		}
		for _, f := range followers {
			wg.Go(func() { _ = f.Restart(t.Context()) })
		}
		wg.Wait()
		t.Log("restarted in", time.Since(cut))
	}
	done.Wait()
	for _, tr := range trials {
		if os.Getenv("V") != "" || tr.overlap {
			t.Logf("%-8v %v busy=%-5v lost %-12v entered %-12v overlap=%v %v", tr.policy, tr.timeout, tr.busy, tr.lost.Sub(cut).Round(time.Millisecond), tr.entered.Sub(cut).Round(time.Millisecond), tr.overlap, tr.lost.Sub(tr.entered))
		}
	}
	type key struct {
		p framework.ErrorPolicy
		t time.Duration
	}
	for _, k := range []key{{0, trials[0].timeout}, {1, trials[0].timeout}, {2, trials[0].timeout}, {0, trials[len(trials)-1].timeout}, {1, trials[len(trials)-1].timeout}, {2, trials[len(trials)-1].timeout}} {
		count, over := 0, 0
		worst := -time.Hour
		for _, tr := range trials {
			if tr.policy == k.p && tr.timeout == k.t {
				count++
				if tr.overlap {
					over++
				}
				worst = max(worst, tr.lost.Sub(tr.entered))
			}
		}
		t.Logf("%-8v T=%v: %d/%d overlaps, worst %v", k.p, k.t, over, count, worst.Round(time.Millisecond))
	}
}
