// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// joinWithSet starts a member with a set of its own.
func (w *world) joinWithSet(id string, set []string, opts ...partition.Option) *worker {
	w.names = partition.Fixed(set...)
	return w.join(id, opts...)
}

// requireHeld checks that the names are held, and no others.
func (w *world) requireHeld(names ...string) {
	w.tb.Helper()
	synctest.Wait()
	w.check()
	var held []string
	for _, p := range w.read().Partitions {
		if w.owner(p.Name) != "" {
			held = append(held, p.Name)
		}
	}
	slices.Sort(names)
	require.Equal(w.tb, slices.Compact(names), held, w.told())
}

// TestSetsOfARollingDeployment: while members of two releases run, all names of both sets are held. When the last old
// member has left, the names that only it has had are given up.
func TestSetsOfARollingDeployment(t *testing.T) {
	for _, returns := range []time.Duration{0, time.Minute} {
		play(t, nil, func(t *testing.T, w *world) {
			old, next := numbered(18)[:12], numbered(18)[6:]
			workers := make(map[string]*worker)
			for _, id := range []string{"a", "b", "c"} {
				workers[id] = w.joinWithSet(id, old, partition.WithReturn(returns))
			}
			time.Sleep(time.Minute)
			w.requireHeld(old...)
			for _, id := range []string{"b", "a", "c"} {
				workers[id].leave()
				time.Sleep(5 * time.Second)
				w.joinWithSet(id, next, partition.WithReturn(returns))
				time.Sleep(10 * time.Second)
				if id != "c" {
					w.requireHeld(slices.Concat(old, next)...)
				}
			}
			time.Sleep(2 * partition.DefaultSettle)
			w.requireHeld(next...)
			w.await(map[string]int{"a": 4, "b": 4, "c": 4})
			require.True(t, w.read().Balanced)
		})
	}
}

// TestSetsMoveAndAreNotRemoved: a name that is in no set of its holder moves to another member, and its function
// does not end with ErrRemoved.
func TestSetsMoveAndAreNotRemoved(t *testing.T) {
	play(t, nil, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var causes []error
		for id, set := range map[string][]string{"a": {"p0"}, "b": numbered(10)} {
			w.joinWithSet(id, set).OnChange(func(c partition.Change) {
				mu.Lock()
				defer mu.Unlock()
				if c.Phase == partition.Ending {
					causes = append(causes, c.Err)
				}
			})
		}
		time.Sleep(time.Minute)
		mu.Lock()
		causes = nil
		mu.Unlock()
		w.joinWithSet("c", numbered(10))
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, causes, 3)
		for _, err := range causes {
			require.ErrorIs(t, err, partition.ErrMoved)
		}
	})
}

// TestSetsOfAMemberThatIsAway stay in the plan until it is no longer awaited.
func TestSetsOfAMemberThatIsAway(t *testing.T) {
	play(t, nil, func(t *testing.T, w *world) {
		a := w.joinWithSet("a", numbered(8), partition.WithReturn(time.Minute))
		w.joinWithSet("b", []string{"q"})
		time.Sleep(time.Minute)
		w.takenMoves()
		before := w.starts()
		for range 2 {
			counts := w.counts()
			a.leave()
			time.Sleep(30 * time.Second)
			require.Equal(t, counts["b"], w.total(), w.told())
			w.names = partition.Fixed(numbered(8)...)
			a.begin("a", nil, partition.WithReturn(time.Minute))
			time.Sleep(30 * time.Second)
			require.Equal(t, counts, w.counts())
		}
		require.Zero(t, w.takenMoves())
		require.Equal(t, 2*w.counts()["a"], w.starts()-before)
		a.leave()
		time.Sleep(2 * time.Minute)
		w.requireHeld("q")
	})
}

// TestSetsOfRandomPrograms: members with one of three sets come, leave and die. When the group is at rest, it holds all
// names of the members that live. If these have the same set, it holds no others.
func TestSetsOfRandomPrograms(t *testing.T) {
	programs := 3
	if testing.Short() {
		programs = 2
	}
	random := seeds.New(t)
	for range programs {
		seed := random.Uint64()
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			w := newWorld(t, nil)
			sets := [][]string{numbered(20)[:10], numbered(20)[5:15], numbered(20)[10:]}
			workers, has := make(map[string]*worker), make(map[string][]string)
			for n := range 25 {
				id := fmt.Sprintf("m%d", random.IntN(6))
				switch k := workers[id]; {
				case k == nil:
					has[id] = sets[random.IntN(1+n/5)%3]
					workers[id] = w.joinWithSet(id, has[id])
				case random.IntN(3) == 0 && len(workers) > 1:
					w.hurts(k)
					w.server.KillSession(k.client.Session().ID())
				case len(workers) > 1:
					k.leave()
					delete(workers, id)
					delete(has, id)
				}
				if random.IntN(2) == 0 {
					time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
					continue
				}
				time.Sleep(time.Minute)
				all := slices.Concat(slices.Collect(maps.Values(has))...)
				for _, name := range all {
					require.NotEmpty(t, w.owner(name), "%s of %v:\n%s", name, has, w.told())
				}
				if !slices.ContainsFunc(slices.Collect(maps.Values(has)), func(set []string) bool { return set[0] != all[0] }) {
					w.requireHeld(all...)
				}
			}
			w.check()
		})
	}
}

// TestLocksOfTwoGroups: groups whose locks are at one place have one holder of a name. A request replaces its label, so the
// other group shows that there is one.
func TestLocksOfTwoGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		held := make(chan string, 10)
		join := func(path, id string) (leave func()) {
			m, err := partition.New(zktest.Client(t, server), path, partition.Fixed("p"), partition.WithID(id), partition.WithLocks("/jobs", "lock"))
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- m.Run(ctx, func(ctx context.Context, p partition.Partition) error {
					held <- id + " " + p.Lease.Path()[:len("/jobs/p/lock/")]
					<-ctx.Done()
					return nil
				})
			}()
			time.Sleep(5 * time.Second)
			return func() {
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
			}
		}
		leave := join("/one", "a")
		defer join("/two", "b")()
		require.Equal(t, "a /jobs/p/lock/", <-held)
		require.Empty(t, held)
		for path, want := range map[string][]string{"/one": {"a", "a"}, "/two": {"b", "?"}} {
			all := must.Get(partition.Read(t.Context(), client, path))(t)
			require.Len(t, all.Partitions, 1)
			require.Equal(t, want, []string{all.Partitions[0].Owner, all.Partitions[0].Holder})
		}
		leave()
		time.Sleep(5 * time.Second)
		require.Equal(t, "b /jobs/p/lock/", <-held)
	})
}
