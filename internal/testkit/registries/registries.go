// SPDX-License-Identifier: Apache-2.0

// Package registries has the troubles that a registry of services must survive. Each runs on three
// embedded servers on fake time, and on three real ones.
package registries

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// Registry is a registry of one service, for one client.
type Registry interface {
	// Register registers an instance, and returns the function that removes it.
	Register(ctx context.Context, id string) (remove func() error, err error)

	// Follow calls fn with each list of ids until ctx ends.
	Follow(ctx context.Context, fn func(ids []string))
}

// session is the timeout of all sessions of the tests.
const session = 4 * time.Second

// outage is longer than that.
const outage = 10 * time.Second

// TestSurvives has instances of a service survive killed sessions, an outage, servers that are
// restarted one by one, and a restart of themselves.
func TestSurvives(t *testing.T, open func(*testing.T, *framework.Framework) Registry) {
	t.Run("zkserver", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			servers := zktest.NewEmbeddedEnsemble(t, 3, zkserver.WithoutListener())
			t.Cleanup(func() { zktest.AssertClean(t, servers.Server(0)) })
			w := &world{
				T: t, open: open, dial: servers.Dial, within: time.Second,
				connect: func(opts ...framework.Option) *framework.Framework { return zktest.Client(t, servers, opts...) },
			}
			for _, s := range servers.Servers() {
				w.stops = append(w.stops, s.Stop)
				w.starts = append(w.starts, s.Restart)
			}
			w.startAll = func() error { return errors.Join(w.starts[0](), w.starts[1](), w.starts[2]()) }
			w.run()
		})
	})
	t.Run("zookeeper", func(t *testing.T) {
		if testing.Short() {
			t.Skip("the real servers are for the full run")
		}
		servers := zktest.NewEnsemble(t, 3)
		w := &world{
			T: t, open: open, dial: new(net.Dialer).DialContext, within: 10 * time.Second, // of a busy machine
			connect: func(opts ...framework.Option) *framework.Framework { return zktest.Client(t, servers, opts...) },
		}
		for _, s := range servers.Servers() {
			w.stops = append(w.stops, s.Kill)
			w.starts = append(w.starts, func() error { return s.Restart(zktest.Context(t)) })
		}
		w.startAll = func() error { return servers.Restart(zktest.Context(t)) }
		w.run()
	})
}

// world is the servers, the instances, and what a caller of the service has seen.
type world struct {
	*testing.T

	open          func(*testing.T, *framework.Framework) Registry
	connect       func(...framework.Option) *framework.Framework
	dial          framework.Dialer
	stops, starts []func() error
	startAll      func() error
	within        time.Duration // how long after its next session an instance may be missing

	mu    sync.Mutex
	known []string             // the list that the caller has
	left  map[string]time.Time // the instances that have ended, since when
	lists int
	empty int // lists without an instance
	calls int
	late  []string // calls of an instance that had left for longer than its session
}

// instance is a process of the service.
type instance struct {
	id     string
	client *framework.Framework
	cable  *cable
	remove func() error
}

func (w *world) run() {
	w.left = map[string]time.Time{}
	caller := w.connect(framework.WithSessionTimeout(session))
	ctx, stop := context.WithCancel(w.Context())
	var calling sync.WaitGroup
	defer calling.Wait()
	defer stop()
	calling.Go(func() { w.open(w.T, caller).Follow(ctx, w.take) })
	calling.Go(func() { w.call(ctx) })
	a, b, c := w.start("a"), w.start("b"), w.start("c")
	w.await("a", "b", "c")

	w.faults([]*instance{a, b, c})

	w.kill(b) // and started again before its session has ended
	b = w.start("b")
	w.back([]*instance{b}, map[string]int64{})
	pause(2 * session) // the first one's session ends, and takes nothing with it
	w.await("a", "b", "c")

	w.kill(c)
	w.await("a", "b")
	require.NoError(w, a.remove())
	w.await("b")

	w.mu.Lock()
	assert.Zero(w, w.empty, "empty lists of %d", w.lists)
	assert.Empty(w, w.late, "late calls of %d", w.calls)
	assert.Positive(w, w.calls)
	w.Logf("%d lists, none empty; %d calls, none to an instance that had left for longer than its session", w.lists, w.calls)
	w.mu.Unlock()

	w.kill(b) // now none is left, and the caller learns that after a while
	w.await()
}

// faults ends sessions and servers. All instances come back, each within a second of its next session.
func (w *world) faults(all []*instance) {
	for _, i := range all {
		w.lose(i, func() { zktest.KillSession(w.T, i.client) })
	}
	w.await("a", "b", "c")

	before := w.sessions(all)
	for _, stop := range w.stops {
		require.NoError(w, stop())
	}
	pause(outage)
	require.NoError(w, w.startAll())
	w.back(all, before)
	w.await("a", "b", "c")

	before = w.sessions(all)
	for i := range w.stops {
		require.NoError(w, w.stops[i]())
		pause(time.Second)
		require.NoError(w, w.starts[i]())
		w.back(all, before)
	}
	w.await("a", "b", "c")

	// All instances are cut off until their sessions have ended, and the caller is not.
	before = w.sessions(all)
	for _, i := range all {
		i.cable.cut()
	}
	pause(session + 2*time.Second)
	for _, i := range all {
		i.cable.mend()
	}
	w.back(all, before)
	w.await("a", "b", "c")
}

// start starts an instance.
func (w *world) start(id string) *instance {
	i := &instance{id: id, cable: &cable{dial: w.dial, conns: map[net.Conn]bool{}}}
	i.client = w.connect(framework.WithSessionTimeout(session), framework.WithDialer(i.cable.connect))
	remove, err := w.open(w.T, i.client).Register(w.Context(), id)
	require.NoError(w, err)
	w.mu.Lock()
	delete(w.left, id)
	w.mu.Unlock()
	i.remove = func() error {
		w.leave(id)
		return remove()
	}
	return i
}

// kill ends an instance as kill -9 does: its servers hear no word.
func (w *world) kill(i *instance) {
	i.cable.cut()
	w.leave(i.id)
	_ = i.client.Close() // no server confirms it
}

func (w *world) leave(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[id] = time.Now()
}

// lose ends the session of an instance, and waits for it in the next one.
func (w *world) lose(i *instance, end func()) {
	before := w.sessions([]*instance{i})
	end()
	w.until(func() bool { return i.client.State().IsConnected() && i.client.Session().ID() != before[i.id] }, time.Minute, "the next session of %s", i.id)
	w.back([]*instance{i}, before)
}

func (w *world) sessions(of []*instance) map[string]int64 {
	ids := map[string]int64{}
	for _, i := range of {
		ids[i.id] = i.client.Session().ID()
	}
	return ids
}

// back waits until the instances are registered. Those that have another session than before get a second for that.
func (w *world) back(all []*instance, before map[string]int64) {
	w.Helper()
	for _, i := range all {
		w.until(func() bool { return i.client.State().IsConnected() }, time.Minute, "a connection of %s", i.id)
		w.until(func() bool {
			own, err := i.client.Ephemerals(w.Context(), "/")
			return err == nil && len(own) == 1
		}, w.within, "%s, which had the session %x and has %x", i.id, before[i.id], i.client.Session().ID())
	}
}

// await waits until the caller has exactly these instances.
func (w *world) await(want ...string) {
	w.Helper()
	w.until(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Equal(w.known, want)
	}, time.Minute, "instances %v", want)
}

func (w *world) until(done func() bool, within time.Duration, what string, args ...any) {
	w.Helper()
	for deadline := time.Now().Add(within); !done(); pause(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("no %s within %v; the caller has %v", fmt.Sprintf(what, args...), within, w.known)
		}
	}
}

func pause(d time.Duration) { <-time.After(d) }

// take takes a list of the caller.
func (w *world) take(ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = slices.Sorted(slices.Values(ids))
	w.lists++
	if len(ids) == 0 {
		w.empty++
	}
}

// call calls each instance that the caller knows, again and again.
func (w *world) call(ctx context.Context) {
	for ; ctx.Err() == nil; pause(20 * time.Millisecond) {
		w.mu.Lock()
		for _, id := range w.known {
			w.calls++
			// Servers look for ended sessions once a tick, of half a second in these tests.
			if since, left := w.left[id]; left && time.Since(since) > session+w.within {
				w.late = append(w.late, id)
			}
		}
		w.mu.Unlock()
	}
}

// cable is the network of one process.
type cable struct {
	dial framework.Dialer

	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]bool
}

func (c *cable) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		return nil, errors.Join(errors.New("cut off"), conn.Close())
	}
	c.conns[conn] = true
	return conn, nil
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for conn := range c.conns {
		_ = conn.Close()
	}
	clear(c.conns)
}

func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = false
}
