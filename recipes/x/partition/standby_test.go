// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/partition"
)

// warmth is what the prepares of all members have done.
type warmth struct {
	mu      sync.Mutex
	takes   time.Duration
	calls   map[string]int  // by "member partition"
	warm    map[string]bool // the context goes on after prepare has returned
	running map[string]int
}

func newWarmth(takes time.Duration) *warmth {
	return &warmth{takes: takes, calls: make(map[string]int), warm: make(map[string]bool), running: make(map[string]int)}
}

// of returns the options of a member.
func (v *warmth) of(tb testing.TB, n int, id, zone string) []partition.Option {
	opts := []partition.Option{partition.WithStandbys(n, func(ctx context.Context, name string) error {
		key := id + " " + name
		v.mu.Lock()
		v.calls[key]++
		v.running[key]++
		if v.running[key] > 1 {
			tb.Errorf("%s is prepared twice at a time", key)
		}
		v.mu.Unlock()
		time.Sleep(v.takes) // whether ctx ends or not
		v.mu.Lock()
		defer v.mu.Unlock()
		v.running[key]--
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.warm[key] = true
		context.AfterFunc(ctx, func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.warm[key] = false
		})
		return nil
	})}
	if zone != "" {
		opts = append(opts, partition.WithZone(zone))
	}
	return opts
}

func (v *warmth) isWarm(id, name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.warm[id+" "+name]
}

func (v *warmth) times() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, calls := range v.calls {
		n += calls
	}
	return n
}

func (w *world) read() partition.Assignment {
	w.tb.Helper()
	a := must.Get(partition.Read(w.tb.Context(), w.theirs, root))(w.tb)
	return a
}

// dies cuts a member off, and ends its session at once.
func (k *worker) dies() {
	k.w.hurts(k)
	k.link.Refuse(true)
	k.link.Cut()
	k.w.server.KillSession(k.client.Session().ID())
}

// requireStandbys checks that each partition has n prepared standbys, none of them in the zone of its owner.
func (w *world) requireStandbys(n int, zones map[string]string, v *warmth) map[string][]string {
	w.tb.Helper()
	standbys := make(map[string][]string)
	for _, p := range w.read().Partitions {
		require.Len(w.tb, p.Standbys, n, p.Name)
		require.Equal(w.tb, p.Standbys, p.Prepared, p.Name)
		for _, id := range p.Standbys {
			require.NotEqual(w.tb, zones[p.Owner], zones[id], "%s is %s's", p.Name, p.Owner)
			require.NotEqual(w.tb, p.Owner, id)
			require.True(w.tb, v.isWarm(id, p.Name))
		}
		standbys[p.Name] = p.Standbys
	}
	return standbys
}

// TestStandbyTakesOverFirst: a zone dies, and each of its partitions is at once at a standby of another zone that
// was prepared. The group is in balance later, and each partition has a standby again.
func TestStandbyTakesOverFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, v := newWorld(t, partition.Fixed(numbered(36)...)), newWarmth(5*time.Second)
		zones, workers := make(map[string]string), make(map[string]*worker)
		for i := range 6 {
			id := fmt.Sprintf("m%d", i)
			zones[id] = fmt.Sprintf("zone-%d", i%3)
			workers[id] = w.join(id, v.of(t, 1, id, zones[id])...)
		}
		time.Sleep(time.Minute)
		w.await(map[string]int{"m0": 6, "m1": 6, "m2": 6, "m3": 6, "m4": 6, "m5": 6})
		standbys := w.requireStandbys(1, zones, v)
		lost := make(map[string]bool)
		for _, name := range numbered(36) {
			lost[name] = zones[w.owner(name)] == "zone-0"
		}

		workers["m0"].dies()
		workers["m3"].dies()
		time.Sleep(500 * time.Millisecond)

		for name := range lost {
			if lost[name] {
				require.Contains(t, standbys[name], w.owner(name), name)
			}
			require.NotEmpty(t, w.owner(name))
		}
		time.Sleep(time.Minute)
		w.await(map[string]int{"m1": 9, "m2": 9, "m4": 9, "m5": 9})
		w.requireStandbys(1, zones, v)
		w.check()
	})
}

// TestStandbyThatIsNotPrepared does not come first.
func TestStandbyThatIsNotPrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, v := newWorld(t, partition.Fixed(numbered(4)...)), newWarmth(0)
		a := w.join("a", append(v.of(t, 1, "a", "z1"), partition.WithCapacity(100))...)
		w.await(map[string]int{"a": 4})
		w.join("c", partition.WithCapacity(100))
		w.await(map[string]int{"a": 2, "c": 2})
		slow := newWarmth(time.Hour)
		w.join("b", slow.of(t, 1, "b", "z2")...) // a standby that has no partition
		time.Sleep(time.Minute)
		for _, p := range w.read().Partitions {
			require.True(t, p.Owner == "c" || slices.Equal(p.Standbys, []string{"b"}))
			require.NotContains(t, p.Prepared, "b")
		}
		a.dies()
		time.Sleep(time.Second)
		w.await(map[string]int{"c": 4})
	})
}

// TestPrepareBeforeAMove: the old owner has the partition until the new one is prepared, and a prepare that fails or
// panics is called again.
func TestPrepareBeforeAMove(t *testing.T) {
	play(t, partition.Fixed(numbered(2)...), func(t *testing.T, w *world) {
		w.join("a")
		w.await(map[string]int{"a": 2})
		calls := 0
		may := make(chan struct{})
		w.join("b", partition.WithStandbys(0, func(ctx context.Context, _ string) error {
			calls++
			switch calls {
			case 1:
				return fmt.Errorf("not now: %w", backoff.Permanent(errors.New("for ever"))) // for retry.Do the last word
			case 2:
				panic("a mistake")
			}
			select {
			case <-may:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}))
		time.Sleep(time.Hour)
		w.await(map[string]int{"a": 2})
		require.Equal(t, 3, calls)
		close(may)
		w.await(map[string]int{"a": 1, "b": 1})
	})
}

// TestPrepareBeforeTheFunction: a new owner without a predecessor prepares, too, and holds the partition meanwhile.
func TestPrepareBeforeTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, v := newWorld(t, partition.Fixed("p")), newWarmth(time.Minute)
		a := w.join("a", v.of(t, 0, "a", "")...)
		time.Sleep(30 * time.Second)
		require.Empty(t, w.owner("p"))
		require.Equal(t, "a", w.read().Partitions[0].Holder)
		time.Sleep(time.Minute)
		require.Equal(t, "a", w.owner("p"))
		require.True(t, v.isWarm("a", "p"))

		a.dies()
		time.Sleep(time.Minute)
		require.Empty(t, w.owner("p"))
		a.link.Refuse(false)
		a.link.Heal()
		time.Sleep(time.Minute)
		require.Equal(t, "a", w.owner("p"))
		require.Equal(t, 1, v.times(), "what was prepared stays over the loss of a session")
	})
}

// TestStandbyThatWasTheOwner is warm at once.
func TestStandbyThatWasTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, v := newWorld(t, partition.Fixed("p")), newWarmth(time.Minute)
		w.join("a", v.of(t, 1, "a", "")...)
		time.Sleep(2 * time.Minute)
		w.join("b", append(v.of(t, 1, "b", ""), partition.WithCapacity(partition.MaxCapacity))...)
		require.NoError(t, partition.Pin(t.Context(), w.theirs, root, "p", "b"))
		time.Sleep(2 * time.Minute)
		require.Equal(t, "b", w.owner("p"))
		require.Equal(t, []string{"a"}, w.read().Partitions[0].Prepared)
		require.Equal(t, 2, v.times())
	})
}

// TestPrepareEndsWithItsRole: when a member is neither owner nor standby, the context ends, and the next prepare
// begins when the last one has returned.
func TestPrepareEndsWithItsRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, v := newWorld(t, partition.Stored("/set")), newWarmth(10*time.Second)
		must.Get(w.theirs.Create(t.Context(), "/set", []byte("p")))(t)
		a := w.join("a", v.of(t, 1, "a", "")...)
		time.Sleep(2 * time.Second)
		for _, set := range []string{"", "p", "", "p"} {
			require.NoError(t, w.theirs.Set(t.Context(), "/set", []byte(set)))
			time.Sleep(2 * time.Second)
		}
		time.Sleep(20 * time.Second)
		require.Equal(t, "a", w.owner("p"))
		b := w.join("b", v.of(t, 1, "b", "")...)
		time.Sleep(20 * time.Second)
		require.Equal(t, []string{"b"}, w.read().Partitions[0].Prepared)
		require.NoError(t, w.theirs.Set(t.Context(), "/set", nil))
		time.Sleep(20 * time.Second)
		require.False(t, v.isWarm("a", "p"))
		require.False(t, v.isWarm("b", "p"))
		require.NoError(t, w.theirs.Set(t.Context(), "/set", []byte("p")))
		time.Sleep(time.Minute)
		require.True(t, v.isWarm("a", "p"))
		require.True(t, v.isWarm("b", "p"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, b.Drain(ctx), "a drained member stands by for nothing")
		synctest.Wait()
		require.False(t, v.isWarm("b", "p"))
		a.leave()
		b.leave()
		w.requireNothingLeft()
	})
}

// TestStandbysOverAReturn: a restart changes no standby, and starts no prepare at the others.
func TestStandbysOverAReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, v := newWorld(t, partition.Fixed(numbered(12)...)), newWarmth(time.Second)
		opts := make(map[string][]partition.Option)
		workers := make(map[string]*worker)
		zones := map[string]string{"a": "z1", "b": "z1", "c": "z2", "d": "z2"}
		for id, zone := range zones {
			opts[id] = append(v.of(t, 2, id, zone), partition.WithReturn(time.Minute))
			workers[id] = w.join(id, opts[id]...)
		}
		time.Sleep(time.Minute)
		standbys := func() map[string][]string {
			all := make(map[string][]string)
			for _, p := range w.read().Partitions {
				all[p.Name] = slices.Clone(p.Standbys)
			}
			return all
		}
		before, calls := standbys(), v.times()
		for _, id := range []string{"a", "c"} {
			workers[id].restart(10*time.Second, opts[id]...)
			time.Sleep(20 * time.Second)
		}
		require.Equal(t, before, standbys())
		mine := 0
		for name, list := range before {
			for _, id := range append(list, w.owner(name)) {
				if id == "a" || id == "c" {
					mine++
				}
			}
		}
		require.Equal(t, mine, v.times()-calls)
	})
}

func TestStandbysThatAreNotValid(t *testing.T) {
	play(t, partition.Fixed("p"), func(t *testing.T, w *world) {
		prepare := func(context.Context, string) error { return nil }
		for want, opt := range map[string]partition.Option{
			"standbys -1": partition.WithStandbys(-1, prepare),
			"prepare nil": partition.WithStandbys(1, nil),
			"zone empty":  partition.WithZone(""),
		} {
			_, err := partition.New(w.theirs, root, w.names, opt)
			require.ErrorContains(t, err, want)
		}
	})
}
