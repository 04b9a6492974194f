// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/checker"
	"github.com/gocurator/curator/testing/zkserver"
)

// world runs one program, in a bubble of testing/synctest: with a server, clients
// and a clock of its own. Whatever takes time takes none, and what one program does
// it does again, but for the order of what happens in the same nanosecond.
type world struct {
	program program
	seen    *tally
	server  *zkserver.Server
	history *checker.History
	clients []*modelClient
	actors  []*actor

	begun    sync.WaitGroup // acquisitions, releases and what waits for the end of a lease
	resizing atomic.Bool    // somebody changes the number of permits
	draining atomic.Bool    // whatever is acquired is released at once

	mu       sync.Mutex
	owners   int
	nodes    map[string]struct{} // those of leases, by path
	deleted  map[string]int64    // when a vandal first asked for a node to be deleted, by path
	problems []error
}

// modelClient is a client and what was done to it.
type modelClient struct {
	*framework.Framework
	acquire acquireFunc

	mu    sync.Mutex
	kills []int64       // when its sessions were killed, on the history's clock
	cut   bool          // it has lost a connection, or soon will
	next  atomic.Uint32 // 1: the reply to the next request gets lost
}

// result is what a program has come to.
type result struct {
	ops      []checker.Op   // what its owners saw of the lock
	problems []error        // what went wrong besides
	atRest   []checker.Op   // ops up to the last step, and a while after it
	waiting  [][]checker.Op // what was waited for then
}

// run runs the program.
func (p program) run(seen *tally) (r result) {
	seen.programs.Add(1)
	w := &world{program: p, seen: seen, history: checker.NewHistory(), nodes: make(map[string]struct{}), deleted: make(map[string]int64)}
	if err := w.start(); err != nil {
		return result{problems: []error{err}}
	}
	for _, s := range p.steps {
		time.Sleep(s.pause)
		w.do(s)
	}
	time.Sleep(untilRest)
	r.atRest, r.waiting = w.history.Ops(), w.waiting()
	w.drain()
	w.close()
	w.mu.Lock()
	defer w.mu.Unlock()
	r.ops, r.problems = w.history.Ops(), w.problems
	return r
}

// waiting returns what those who wait would do if they were let in.
func (w *world) waiting() (wanted [][]checker.Op) {
	now := w.history.Now()
	for _, a := range w.actors {
		a.mu.Lock()
		if a.cancel != nil {
			wanted = append(wanted, w.program.recipe.wanted(a.wants, now))
		}
		a.mu.Unlock()
	}
	return wanted
}

// wanted returns what an acquisition would do if it were let in now.
func (r *recipe) wanted(w wish, now int64) (ops []checker.Op) {
	s := w.step
	op := checker.Op{
		Kind: checker.Acquire, Lock: r.folders[0], Owner: w.owner, Shared: s.verb.reads(),
		Token: w.token, Call: now, Return: now,
	}
	switch {
	case r.several:
		op.N = s.many()
	case r.members != nil:
		for _, op.Lock = range r.members(s.many()) {
			ops = append(ops, op)
		}
		return ops
	}
	return []checker.Op{op}
}

func (w *world) start() (err error) {
	options := []zkserver.Option{zkserver.WithoutListener()}
	if w.program.wraps {
		options = append(options, zkserver.WithVersion("3.5.10"))
	}
	if w.server, err = zkserver.Start(options...); err != nil {
		return err
	}
	for range w.program.clients {
		c := new(modelClient)
		c.Framework, err = framework.Connect(context.Background(), "zkserver:1", framework.WithDialer(w.dial),
			framework.WithSessionTimeout(sessionOfModels), framework.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			return err
		}
		if c.acquire, err = w.program.recipe.open(c.Framework); err != nil {
			return err
		}
		w.clients = append(w.clients, c)
	}
	for i := range maxActors {
		w.actors = append(w.actors, &actor{client: w.clients[w.program.clientOf(i)]})
	}
	if w.program.wraps {
		for _, folder := range w.program.recipe.folders {
			if err := w.clients[0].CreateContainers(context.Background(), folder); err != nil {
				return err
			}
			if err := w.server.SetSequence(folder, math.MaxInt32-2); err != nil {
				return err
			}
		}
	}
	random := rand.New(rand.NewPCG(w.program.seed, 0)) // hooks do not overlap
	w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
		for _, c := range w.clients {
			if s := c.Session(); s != nil && s.ID() == r.SessionID && r.Op != zkserver.OpCreateSession && c.next.CompareAndSwap(1, 0) {
				return zkserver.LoseReply
			}
		}
		return zkserver.Delay(time.Duration(random.Int64N(int64(slowestRequest))))
	})
	return nil
}

const (
	sessionOfModels = 9 * time.Second
	slowestRequest  = 2 * time.Millisecond
	untilRest       = 5 * time.Second // connections are back, retries made
)

// dial connects in memory. What a client writes is taken from it at once: its writers
// wait for each other at a mutex, and a goroutine that does keeps the fake clock from
// going on.
func (w *world) dial(context.Context, string, string) (net.Conn, error) {
	client, near := net.Pipe()
	far, server := net.Pipe()
	pump(far, near)
	pump(near, far)
	w.server.ServeConn(server)
	return client, nil
}

// pump passes on what comes from one connection to another one until either ends,
// and then ends both.
func pump(to, from net.Conn) {
	const most = 1 << 10 // more than a client ever has outstanding
	passed := make(chan []byte, most)
	go func() {
		defer close(passed)
		for {
			b := make([]byte, 1<<10)
			n, err := from.Read(b)
			passed <- b[:n]
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer to.Close()
		for b := range passed {
			if _, err := to.Write(b); err != nil {
				from.Close() // and the rest is lost
			}
		}
	}()
}

// failf reports a problem.
func (w *world) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Errorf(format, args...))
}

// drain releases everything, so that whoever waits gets through.
func (w *world) drain() {
	w.draining.Store(true)
	w.resume()
	for _, a := range w.actors {
		for g := a.pick(0); g != nil; g = a.pick(0) {
			w.release(g)
		}
	}
	ended := make(chan struct{})
	go func() {
		w.begun.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limit):
		w.failf("somebody still waits %v after all has been released", limit)
		for _, a := range w.actors {
			a.mu.Lock()
			if a.cancel != nil {
				a.cancel()
			}
			a.mu.Unlock()
		}
	}
	w.awaitNothingLeft()
}

// resume sets a maximum that lets waiters in: the program may have paused the semaphore.
func (w *world) resume() {
	if !w.program.recipe.resizes {
		return
	}
	for w.resizing.Load() { // fake time: this ends as soon as the change under way does
		time.Sleep(time.Millisecond)
	}
	w.resize(w.actors[0], maxPermits)
}

// awaitNothingLeft waits until the server has nothing of the clients but sessions.
func (w *world) awaitNothingLeft() {
	deadline := time.Now().Add(limit)
	for {
		left := w.server.Stats()
		if left.Ephemerals == 0 && left.Watches == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.failf("%d nodes and %d watches are left", left.Ephemerals, left.Watches)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// close ends the clients and the server. The bubble sees to it that no goroutine is
// left.
func (w *world) close() {
	for _, c := range w.clients {
		c.next.Store(0)
	}
	time.Sleep(time.Second) // whoever has lost a connection knows
	for _, c := range w.clients {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		if err := c.BlockUntilConnected(ctx); err != nil {
			w.failf("connect again: %w", err)
		}
		cancel()
		if err := c.Close(); err != nil {
			w.failf("close: %w", err)
		}
	}
	if n := w.server.Stats().Sessions; n != 0 {
		w.failf("%d sessions are left", n)
	}
	if err := w.server.Close(); err != nil {
		w.failf("close the server: %w", err)
	}
}
