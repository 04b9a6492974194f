// SPDX-License-Identifier: Apache-2.0

package zksim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zksim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// findings plays one history of a program in which each action does the same.
func findings(t *testing.T, act func(w *zksim.World, c *zksim.Client, ctx context.Context)) string {
	t.Helper()
	h := zksim.Run(t, 1, zksim.Program{
		Faults: []zksim.Fault{zksim.LagTime},
		Join: func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
			return func(ctx context.Context, _ *rand.Rand) { act(w, c, ctx) }, nil
		},
	})
	return strings.Join(h.Findings, "\n")
}

func valid() bool { return false }

// TestFindings: a judge that cannot find anything shows nothing.
func TestFindings(t *testing.T) {
	hold := func(h zksim.Hold) func(*zksim.World, *zksim.Client, context.Context) {
		return func(w *zksim.World, c *zksim.Client, _ context.Context) {
			h := h // each client has its own
			h.Client, h.IsOver = c.Index, valid
			leave := w.Enter(h)
			time.Sleep(3 * time.Second)
			leave()
		}
	}
	require.Contains(t, findings(t, hold(zksim.Hold{Key: "a", Exclusive: true})), "both hold a")
	require.Contains(t, findings(t, hold(zksim.Hold{Key: "a", Places: 1})), "2 clients hold a, which has 1 places")
	require.Empty(t, findings(t, hold(zksim.Hold{Key: "a", Places: 3})))
	require.Contains(t, findings(t, hold(zksim.Hold{Key: "a", Exclusive: true, Token: 7})), "token 0x7, after 0x7")
	require.Contains(t, findings(t, func(_ *zksim.World, _ *zksim.Client, ctx context.Context) { <-ctx.Done() }), "an action has not ended")
	require.Contains(t, findings(t, func(_ *zksim.World, c *zksim.Client, ctx context.Context) {
		for range 61 {
			must.Get(c.Exists(ctx, "/"))(t)
		}
	}), "has made more than 60 requests")
	require.Contains(t, findings(t, func(_ *zksim.World, c *zksim.Client, ctx context.Context) {
		for ctx.Err() == nil { // for minutes of fake time, if it may
			_, _ = c.Exists(ctx, "/")
		}
	}), "clients have made 6000 requests")
	require.Contains(t, findings(t, func(_ *zksim.World, c *zksim.Client, _ context.Context) {
		for began := time.Now(); time.Since(began) < time.Minute; { // whether or not its context ends
			_, _ = c.Exists(context.Background(), "/")
		}
	}), "clients have made 6000 requests")
	require.Contains(t, findings(t, func(w *zksim.World, _ *zksim.Client, ctx context.Context) {
		client := must.Get(framework.Connect(ctx, w.Servers.ConnectString(), framework.WithDialer(w.Servers.Dial)))(t)
		var heal []func()
		for _, s := range w.Servers.Servers() {
			heal = append(heal, s.Blackhole(client.Session().ID(), zkserver.ToServer))
		}
		require.Error(t, client.Close(), "no server can hear it")
		for _, heal := range heal {
			heal()
		}
	}), "Sessions:18")
}

// mutexes is a program of a mutex.
func mutexes(opts ...framework.Option) zksim.Program {
	return zksim.Program{
		Options: opts,
		Join: func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
			mutex, err := locks.NewInterProcessMutex(c.Framework, "/lock")
			return func(ctx context.Context, _ *rand.Rand) {
				lease, err := mutex.Acquire(ctx)
				if err != nil {
					return
				}
				leave := w.Enter(zksim.Hold{
					Key: "/lock", Client: c.Index, Exclusive: true, Token: lease.Token(),
					IsOver: func() bool { return lease.Err() != nil },
				})
				select {
				case <-time.After(3 * time.Second):
				case <-lease.Done():
				}
				leave()
				_ = lease.Release(ctx) // what cannot be deleted now is deleted later
			}, err
		},
	}
}

// TestSessionBelowItsBound: under the default policy a session must last for longer than servers go on that are cut off. What is
// found comes back with its seed.
func TestSessionBelowItsBound(t *testing.T) {
	unsafe := mutexes(framework.WithSessionTimeout(time.Second))
	unsafe.Faults = []zksim.Fault{zksim.IsolateOld}
	isFound := func(seed uint64) bool {
		return strings.Contains(strings.Join(zksim.Run(t, seed, unsafe).Findings, "\n"), "both hold /lock")
	}
	seed := uint64(0)
	for ; !isFound(seed); seed++ {
		require.Less(t, seed, uint64(40))
	}
	again := 0
	for range 10 {
		if isFound(seed) {
			again++
		}
	}
	require.GreaterOrEqual(t, again, 9, "runs with the seed %d that have found it again", seed)
	safe := mutexes()
	safe.Faults = unsafe.Faults
	zksim.Check(t, 0, 15, safe)
}

// TestSessionsExpire within a history, unless a program has longer ones.
func TestSessionsExpire(t *testing.T) {
	expired := func(opts ...framework.Option) (n int) {
		for seed := range uint64(5) {
			n += zksim.Run(t, seed, mutexes(opts...)).Expired
		}
		return n
	}
	require.Positive(t, expired())
	require.Zero(t, expired(framework.WithSessionTimeout(time.Minute)))
}

// TestWrongClocks: a server whose clock is wrong by more than a hundredth lets two clients hold a lock.
func TestWrongClocks(t *testing.T) {
	p := mutexes(framework.WithSessionTimeout(2 * time.Second))
	p.Faults = []zksim.Fault{zksim.WrongClock, zksim.WrongClock, zksim.WrongClock, zksim.SilentClient}
	const first = 190 // one history of some hundred meets a clock that is wrong enough, such as that of the seed 200
	seed := uint64(first)
	for ; !strings.Contains(strings.Join(zksim.Run(t, seed, p).Findings, "\n"), "both hold /lock"); seed++ {
		require.Less(t, seed, uint64(first+100))
	}
	p.Faults = []zksim.Fault{zksim.ClockRate, zksim.ClockRate, zksim.ClockRate, zksim.SilentClient}
	zksim.Check(t, first, int(seed)-first+1, p)
}

// TestKillProcess: what a killed process had stays until its session times out or its guard ends it, and the process begins again.
func TestKillProcess(t *testing.T) {
	p := mutexes()
	p.Faults = []zksim.Fault{zksim.KillProcess}
	var joined, ended atomic.Int32
	join := p.Join
	p.Join = func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
		joined.Add(1)
		return join(w, c)
	}
	p.Settled = func(_ context.Context, w *zksim.World) {
		for _, e := range w.Servers.Log() {
			if e.Kind == zkserver.SessionClosed { // the clients are closed later
				ended.Add(1)
			}
		}
	}
	const histories = 10
	expired := 0
	for seed := range uint64(histories) {
		h := zksim.Run(t, seed, p)
		require.Empty(t, h.Findings, "seed %d:\n%s", seed, strings.Join(h.Log, "\n"))
		expired += h.Expired
	}
	require.GreaterOrEqual(t, joined.Load(), int32(3*histories+histories), "each history kills one process at least")
	require.Positive(t, ended.Load(), "by guards")
	require.Positive(t, expired)
}

// TestKillProcessFindsWhatIsTakenOver: a process must not go on with the znode of a session that another process had.
func TestKillProcessFindsWhatIsTakenOver(t *testing.T) {
	p := zksim.Program{
		Faults: []zksim.Fault{zksim.KillProcess},
		Join: func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
			mine := []byte{byte('0' + c.Index)}
			return func(ctx context.Context, _ *rand.Rand) {
				_, err := c.Create(ctx, "/claim", mine, framework.WithMode(framework.Ephemeral))
				if found, readErr := c.Get(ctx, "/claim"); err != nil && (readErr != nil || string(found) != string(mine)) {
					return
				}
				session := c.Session()
				leave := w.Enter(zksim.Hold{Key: "/claim", Client: c.Index, Exclusive: true, IsOver: func() bool { return session.Err() != nil }})
				time.Sleep(4 * time.Second)
				leave()
				_ = c.Delete(ctx, "/claim")
			}, nil
		},
	}
	found := 0
	for seed := range uint64(40) {
		if strings.Contains(strings.Join(zksim.Run(t, seed, p).Findings, "\n"), "both hold /claim") {
			found++
		}
	}
	require.Positive(t, found)
}

// TestPauseProcess: sessions end in a pause, and a mutex has one holder.
func TestPauseProcess(t *testing.T) {
	p := mutexes()
	p.Faults = []zksim.Fault{zksim.PauseProcess}
	expired := 0
	for seed := range uint64(10) {
		h := zksim.Run(t, seed, p)
		require.Empty(t, h.Findings, "seed %d:\n%s", seed, strings.Join(h.Log, "\n"))
		expired += h.Expired
	}
	require.Positive(t, expired)
}

// TestReplace: servers are out of the ensemble, and in it again, some of them without what they had. Clients that follow the ensemble go on.
func TestReplace(t *testing.T) {
	p := mutexes(framework.WithEnsembleTracker())
	p.Faults = []zksim.Fault{zksim.Replace, zksim.SlowLinks}
	done := make(map[string]int)
	p.Settled = func(_ context.Context, w *zksim.World) {
		for _, e := range w.Servers.Log() {
			if e.Kind == zkserver.Commanded {
				done[e.Detail]++
			}
		}
		config := string(w.Servers.Znodes("/zookeeper/config")[0].Data)
		if servers := len(w.Servers.Servers()); strings.Count(config, "server.") != servers {
			w.Findf("%s: expected %d servers", config, servers)
		}
	}
	zksim.Check(t, 1, 20, p)
	require.Positive(t, done["Leave"])
	require.Positive(t, done["Restore: epoch 0"])
	require.Equal(t, done["Leave"], done["Join"])
}

// TestRuleFindsPlantedFault plays what Example does.
func TestRuleFindsPlantedFault(t *testing.T) {
	found := 0
	for seed := range uint64(20) {
		if strings.Contains(strings.Join(zksim.Run(t, seed, seats()).Findings, "\n"), "neither free nor sold") {
			found++
		}
	}
	require.Positive(t, found)
}

// TestJoinFails: what cannot join is found, and leaves nothing running.
func TestJoinFails(t *testing.T) {
	h := zksim.Run(t, 1, zksim.Program{Join: func(_ *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
		_, err := c.Create(context.Background(), "/one", nil)
		return nil, err
	}})
	require.Len(t, h.Findings, 1)
	require.Contains(t, h.Findings[0], "client 1 cannot join")
}

// TestProcessBeginsAtTheEnd: a process that begins as all actions end is waited for, or does not begin.
func TestProcessBeginsAtTheEnd(t *testing.T) {
	p := zksim.Program{Clients: 1, Actions: 1, Faults: []zksim.Fault{zksim.LagTime}}
	p.Join = func(_ *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
		return func(ctx context.Context, _ *rand.Rand) {
			context.AfterFunc(ctx, func() {
				c.Process.Kill(false)
				c.Process.Start()
			})
		}, nil
	}
	zksim.Check(t, 1, 20, p)
}

// TestProcess: all clients of a process are paused and killed together. What a killed process had goes with its sessions.
func TestProcess(t *testing.T) {
	var lives atomic.Int32
	p := zksim.Program{Clients: 1, Actions: 1, Faults: []zksim.Fault{zksim.LagTime}}
	p.Join = func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
		life := lives.Add(1)
		other, err := c.Process.Connect(context.Background())
		sessions := func(when string, want int) {
			ids := make(map[int64]bool)
			for _, z := range w.Servers.Znodes("/") {
				if z.Owner != 0 {
					ids[z.Owner] = true
				}
			}
			if len(ids) != want {
				w.Findf("%s: %d sessions have znodes, expected %d", when, len(ids), want)
			}
		}
		create := func(ctx context.Context) {
			for _, f := range []*framework.Framework{c.Framework, other} {
				must.Get(f.Create(ctx, "/mine-", nil, framework.WithMode(framework.EphemeralSequential)))(t)
			}
		}
		if life > 1 {
			create(context.Background())
			return func(context.Context, *rand.Rand) {}, err
		}
		return func(ctx context.Context, _ *rand.Rand) {
			create(ctx)
			sessions("at first", 2)
			resume := c.Process.Pause()
			time.Sleep(10 * time.Second)
			sessions("in a pause", 0)
			resume()
			create(ctx)
			c.Process.Kill(true)
			require.Error(t, ctx.Err())
			sessions("after a death", 2)
			time.Sleep(10 * time.Second)
			sessions("when sessions have timed out", 0)
			c.Process.Start()
			sessions("in another life", 2)
		}, err
	}
	h := zksim.Run(t, 1, p)
	require.Empty(t, h.Findings, strings.Join(h.Log, "\n"))
	require.EqualValues(t, 2, lives.Load())
}

// TestProcessIsPausedWhileItConnects: a client that a paused process connects, or one that begins again, is connected when the pause is over.
func TestProcessIsPausedWhileItConnects(t *testing.T) {
	const lasts = 3 * time.Second
	var joined []time.Duration // when the lives have
	h := zksim.Run(t, 1, zksim.Program{
		Clients: 1, Actions: 1, Faults: []zksim.Fault{zksim.LagTime},
		Join: func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
			joined = append(joined, w.Elapsed())
			return func(ctx context.Context, _ *rand.Rand) {
				over := w.Elapsed() + lasts
				time.AfterFunc(lasts, c.Process.Pause())
				if _, err := c.Process.Connect(ctx); err != nil || w.Elapsed() < over {
					w.Findf("a client of a paused process has connected at %v, before %v: %v", w.Elapsed(), over, err)
				}
				var all sync.WaitGroup
				for _, s := range w.Servers.Servers() {
					require.NoError(t, s.Stop())
				}
				c.Process.Kill(false)
				all.Go(c.Process.Start)
				time.Sleep(time.Second)
				over = w.Elapsed() + lasts
				time.AfterFunc(lasts, c.Process.Pause())
				for _, s := range w.Servers.Servers() {
					require.NoError(t, s.Restart())
				}
				if all.Wait(); joined[1] < over {
					w.Findf("a paused process has joined at %v, before %v", joined[1], over)
				}
			}, nil
		},
	})
	require.Empty(t, h.Findings, strings.Join(h.Log, "\n"))
	require.Len(t, joined, 2)
}

// TestProcessIsKilledWhileItConnects: the client of a process that is gone goes, too.
func TestProcessIsKilledWhileItConnects(t *testing.T) {
	h := zksim.Run(t, 1, zksim.Program{
		Clients: 1, Actions: 1, Faults: []zksim.Fault{zksim.LagTime},
		Join: func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
			return func(context.Context, *rand.Rand) {
				failed := make(chan error, 1)
				go func() {
					_, err := c.Process.Connect(context.Background())
					failed <- err
				}()
				time.Sleep(time.Microsecond) // no answer has come yet
				c.Process.Kill(false)
				if err := <-failed; err == nil {
					w.Findf("a killed process has connected a client")
				}
			}, nil
		},
	})
	require.Empty(t, h.Findings, strings.Join(h.Log, "\n"))
}

// TestProcessConnectsAtTheEnd: no client is connected that nothing would close.
func TestProcessConnectsAtTheEnd(t *testing.T) {
	for name, after := range map[string]time.Duration{"while clients are closed": 0, "when they are closed": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			var process *zksim.Process
			h := zksim.Run(t, 1, zksim.Program{
				Clients: 1, Actions: 1, Faults: []zksim.Fault{zksim.LagTime},
				Join: func(_ *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
					process = c.Process
					return func(context.Context, *rand.Rand) {}, nil
				},
				Settled: func(context.Context, *zksim.World) {
					time.AfterFunc(after, func() {
						_, err := process.Connect(context.Background())
						failed <- err
					})
				},
			})
			require.Error(t, <-failed)
			require.Empty(t, h.Findings, strings.Join(h.Log, "\n"))
		})
	}
}

// TestRules are asked while clients act, and at the end. What they find twice is said once.
func TestRules(t *testing.T) {
	rule := func(from, to time.Duration) func(*zksim.World) error {
		return func(w *zksim.World) error {
			if now := w.Elapsed(); now < from || now >= to {
				return nil
			}
			return fmt.Errorf("found from %v on", from)
		}
	}
	p := mutexes()
	settled := time.Duration(0)
	p.Settled = func(_ context.Context, w *zksim.World) { settled = w.Elapsed() }
	zksim.Run(t, 1, p)
	p.Rules = []func(*zksim.World) error{rule(time.Second, 2*time.Second), rule(settled, time.Hour), rule(time.Hour, 2*time.Hour)}
	require.Equal(t, []string{"found from 1s on", fmt.Sprintf("found from %v on", settled)}, zksim.Run(t, 1, p).Findings)
}
