package locks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
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
	draining atomic.Bool    // whatever is acquired is released at once

	mu       sync.Mutex
	owners   int
	deleted  map[string]int64 // when a node was deleted, by path
	problems []error
}

// modelClient is a client and what was done to it.
type modelClient struct {
	*framework.Framework
	doors doors

	mu    sync.Mutex
	kills []int64       // when its sessions were killed, on the history's clock
	cut   bool          // it has lost a connection, or soon will
	next  atomic.Uint32 // 1: the reply to the next request gets lost
}

// isHurt tells whether the client has lost a session or a connection, or may have.
func (c *modelClient) isHurt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut || len(c.kills) > 0
}

// actor acquires one after the other, and may hold several.
type actor struct {
	client *modelClient

	mu     sync.Mutex
	cancel context.CancelFunc // of the acquisition that is under way, nil when there is none
	grants []*grant           // not released yet
}

// grant is what one acquisition got, or one permit of it.
type grant struct {
	owner    string
	shared   bool
	leases   []*locks.Lease // of a multi-lock several
	context  func(context.Context) context.Context
	release  func(context.Context) error
	acquired int64        // when it was called for
	released atomic.Int64 // when it was called to be released, 0 before
}

// run runs the program, and returns what its owners saw of the lock and what went
// wrong besides.
func (p program) run(seen *tally) ([]checker.Op, []error) {
	seen.programs.Add(1)
	w := &world{program: p, seen: seen, history: checker.NewHistory(), deleted: make(map[string]int64)}
	if err := w.start(); err != nil {
		return nil, []error{err}
	}
	for _, s := range p.steps {
		time.Sleep(s.pause)
		w.do(s)
	}
	w.drain()
	w.close()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.history.Ops(), w.problems
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
		if c.doors, err = w.program.recipe.open(c.Framework); err != nil {
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
)

func (w *world) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	w.server.ServeConn(server)
	return client, nil
}

// failf reports a problem.
func (w *world) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Errorf(format, args...))
}

// do begins a step.
func (w *world) do(s step) {
	a := w.actors[s.actor]
	switch s.verb {
	case restIt:
	case releaseIt:
		if g := a.pick(s.n); g != nil {
			w.release(g)
		}
	case cancelIt:
		a.mu.Lock()
		if a.cancel != nil {
			a.cancel()
		}
		a.mu.Unlock()
	case revokeIt:
		if g := w.actors[s.n].pick(-1); g != nil {
			w.revoke(a, g)
		}
	case deleteIt:
		w.vandalize(a, w.program.recipe.folderOf(s.actor), s.n)
	case resizeIt:
		w.resize(a, s.n)
	case killIt:
		w.kill(a.client)
	case loseIt:
		a.client.mu.Lock()
		a.client.cut = true
		a.client.mu.Unlock()
		a.client.next.Store(1)
	default:
		w.acquire(a, s)
	}
}

// pick returns one of the actor's grants, the newest for -1, or nil if it has none.
func (a *actor) pick(n int) *grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(a.grants) == 0:
		return nil
	case n < 0:
		return a.grants[len(a.grants)-1]
	default:
		return a.grants[n%len(a.grants)]
	}
}

// acquire begins an acquisition, unless the actor has one under way.
func (w *world) acquire(a *actor, s step) {
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	w.owners++
	owner := fmt.Sprintf("actor %d, turn %d", s.actor, w.owners)
	w.mu.Unlock()
	owned := false
	if g := a.pick(-1); s.owned && g != nil {
		ctx, owned = g.context(ctx), true
		if w.program.recipe.reenters {
			owner = g.owner
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		cancel()
		return
	}
	a.cancel = cancel
	w.begun.Go(func() {
		call := w.history.Now()
		grants, err := a.client.doors(ctx, s.verb, max(s.n, 1))
		if err != nil {
			w.seen.failed.Add(1)
			w.judge(a, s, owned, ctx.Err() != nil, err)
		} else {
			if owned {
				w.seen.reentered.Add(1)
			}
			w.granted(a, owner, call, grants)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		cancel()
		a.cancel = nil
	})
}

// granted records what was acquired together, and watches it end.
func (w *world) granted(a *actor, owner string, call int64, grants []*grant) {
	w.seen.acquired.Add(1)
	now := w.history.Now()
	got := make(map[string]checker.Op) // by lock
	for _, g := range grants {
		g.owner, g.acquired = owner, call
		for _, lease := range g.leases {
			folder := path.Dir(lease.Path())
			op, ok := got[folder]
			if !ok {
				op = checker.Op{
					Kind: checker.Acquire, Lock: folder, Owner: owner, Shared: g.shared,
					Token: lease.Token(), Call: call, Return: now,
				}
			}
			op.N++
			got[folder] = op
			stillborn := lease.Err() != nil
			w.begun.Go(func() { w.watch(a.client, g, lease, stillborn) })
		}
	}
	for _, op := range got {
		w.history.Add(op)
	}
	a.mu.Lock()
	a.grants = append(a.grants, grants...)
	a.mu.Unlock()
	if w.draining.Load() {
		for _, g := range grants {
			w.release(g)
		}
	}
}

// watch records the end of a lease, whatever it is: it has ended between the moment
// in which that was begun, by its owner or by who has killed the session, and the one
// in which its owner knows. One that had ended when it was returned has done so at any
// time since it was called for.
func (w *world) watch(c *modelClient, g *grant, lease *locks.Lease, stillborn bool) {
	<-lease.Done()
	now := w.history.Now()
	op := checker.Op{Kind: checker.Release, Lock: path.Dir(lease.Path()), Owner: g.owner, Shared: g.shared, Call: now, Return: now}
	if called := g.released.Load(); called != 0 {
		op.Call = called
	}
	if stillborn {
		op.Call = g.acquired
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kill := range c.kills {
		if kill >= g.acquired {
			op.Call = min(op.Call, kill)
		}
	}
	deleted, vandalized := w.vandalized(lease.Path())
	if vandalized {
		op.Call = min(op.Call, max(deleted, g.acquired))
	}
	w.history.Add(op)
	var lost *locks.LostError
	if !errors.As(lease.Err(), &lost) {
		return
	}
	w.seen.lost.Add(1)
	if len(c.kills) == 0 && !c.cut && !vandalized {
		w.failf("%s was lost for no reason: %w", lease.Path(), lost)
	}
}

// release begins to release a grant, once.
func (w *world) release(g *grant) {
	if !g.released.CompareAndSwap(0, max(w.history.Now(), 1)) {
		return
	}
	for _, a := range w.actors {
		a.mu.Lock()
		a.grants = slices.DeleteFunc(a.grants, func(other *grant) bool { return other == g })
		a.mu.Unlock()
	}
	w.begun.Go(func() {
		var lost *locks.LostError
		if err := g.release(context.Background()); err != nil && !errors.As(err, &lost) {
			w.failf("release: %w", err)
		}
	})
}

// revoke asks for a grant, whose owner obliges.
func (w *world) revoke(a *actor, g *grant) {
	lease := g.leases[0]
	w.begun.Go(func() {
		if err := locks.AttemptRevoke(context.Background(), a.client.Framework, lease.Path()); err != nil {
			w.failf("revoke: %w", err)
			return
		}
		select {
		case <-lease.Revoked():
			w.release(g)
		case <-lease.Done():
		case <-time.After(limit):
			w.failf("%s was asked for, and its owner was not told", lease.Path())
		}
	})
}

// vandalize deletes the n-th node of a folder, whosever it is.
func (w *world) vandalize(a *actor, folder string, n int) {
	w.begun.Go(func() {
		ctx := context.Background()
		names, err := a.client.Children(ctx, folder)
		if err != nil || len(names) == 0 {
			return // nobody has been here yet, or the request was lost
		}
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
		victim := framework.JoinPath(folder, names[n%len(names)])
		w.mu.Lock()
		w.deleted[victim] = w.history.Now()
		w.mu.Unlock()
		err = a.client.Delete(ctx, victim)
		if err != nil && !errors.Is(err, framework.ErrNoNode) && !framework.OutcomeUnknown(err) {
			w.failf("delete: %w", err)
		}
	})
}

// vandalized tells when a node was deleted by somebody else.
func (w *world) vandalized(node string) (at int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok = w.deleted[node]
	return at, ok
}

func (w *world) isVandalized() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.deleted) > 0
}

// resize changes the maximum.
func (w *world) resize(a *actor, n int) {
	w.begun.Go(func() {
		call := w.history.Now()
		err := sharedLeases(a.client.Framework).Set(context.Background(), n)
		returned := w.history.Now()
		switch {
		case framework.OutcomeUnknown(err):
			returned = math.MaxInt64
		case err != nil:
			w.failf("set the maximum: %w", err)
			return
		}
		w.history.Add(checker.Op{Kind: checker.Resize, Lock: w.program.recipe.folders[0], N: n, Call: call, Return: returned})
	})
}

// kill ends the session of a client at the server.
func (w *world) kill(c *modelClient) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills = append(c.kills, w.history.Now())
	w.server.KillSession(c.Session().ID())
}

// judge reports an acquisition that failed without a reason.
func (w *world) judge(a *actor, s step, owned, cancelled bool, err error) {
	var lost *locks.LostError
	switch {
	case (s.verb == tryIt || s.verb == tryReadIt || cancelled) && errors.Is(err, locks.ErrNotAcquired):
	case errors.As(err, &lost) && (a.client.isHurt() || w.isVandalized()): // a member of a multi-lock that had been acquired
	case owned && (errors.As(err, &lost) || errors.Is(err, locks.ErrReleased) || errors.Is(err, locks.ErrUpgrade)):
	case w.program.recipe.counts && errors.Is(err, locks.ErrTooManyLeases):
	default:
		w.failf("actor %d: %s: %w", s.actor, w.program.describe(s), err)
	}
}

// drain releases everything, so that whoever waits gets through.
func (w *world) drain() {
	w.draining.Store(true)
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
