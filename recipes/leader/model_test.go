// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// healedWithin is when somebody leads after all trouble is over: a session that
// is dead may have to end, and pauses between failed attempts have become long.
const healedWithin = time.Minute

// The recipes that programs run.
const (
	latchKind    = "latch"
	selectorKind = "selector"
)

// TestModel runs random programs of candidates, resignations, outages, killed
// sessions and deleted nodes. In each of them at most one candidate leads, terms
// rise, beginnings and ends alternate, an observer never goes back, somebody
// leads soon after all has healed, and nothing is left in the end.
func TestModel(t *testing.T) {
	programs, steps := 25, 40
	if seeds.Long() {
		programs = 300
	}
	for name, stand := range map[string]func(*candidate){latchKind: (*candidate).standByLatch, selectorKind: (*candidate).standBySelector} {
		t.Run(name, func(t *testing.T) {
			random := seeds.New(t)
			terms := 0
			for n := range programs {
				seed := random.Uint64()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, name, fmt.Sprintf("program %d", n), rand.New(rand.NewPCG(seed, 0)), stand)
					for range steps {
						w.step()
					}
					w.heal()
					w.end()
					terms += len(w.terms)
				})
			}
			require.Greater(t, terms, 5*programs, "terms of all programs: they have tried too little")
		})
	}
}

// world is the run of one program.
type world struct {
	t          *testing.T
	name       string
	random     *rand.Rand
	server     *zkserver.Server
	theirs     *framework.Framework // of the vandal and the observer
	candidates []*candidate
	stopSeeing context.CancelFunc
	seeing     chan struct{}

	mu     sync.Mutex
	story  []string        // what was done, for the message
	terms  []modelTerm     // in the order in which they began
	hurt   map[string]bool // nodes that were deleted, or whose session was ended, from outside
	broken []string
}

// modelTerm is a leadership of a candidate.
type modelTerm struct {
	*locks.Lease
	of *candidate
}

// candidate is one of them, with a client of its own.
type candidate struct {
	w      *world
	index  int
	client *framework.Framework
	link   *zkproxy.Proxy
	opts   []leader.Option
	stand  func(*candidate)

	// Of the recipe that stands at present; nil while none does.
	resign func()
	stop   func()
}

func newWorld(t *testing.T, kind, name string, random *rand.Rand, stand func(*candidate)) *world {
	t.Helper()
	w := &world{
		t: t, name: name, random: random, server: zktest.NewServer(t, zkserver.WithoutListener()),
		seeing: make(chan struct{}), hurt: make(map[string]bool),
	}
	w.theirs = zktest.Client(t, w.server)
	policy := []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy, framework.QuorumErrorPolicy}[random.IntN(3)]
	w.didf("policy %v", policy)
	for i := range 3 {
		link := zktest.NewProxy(t, w.server)
		w.candidates = append(w.candidates, &candidate{
			w: w, index: i, client: zktest.Client(t, link), link: link, stand: stand,
			opts: []leader.Option{leader.WithID(fmt.Sprint(i)), leader.WithLockOptions(locks.WithErrorPolicy(policy))},
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.stopSeeing = cancel
	go w.see(ctx, kind)
	return w
}

func (w *world) didf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

func (w *world) brokenLockedf(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// see observes the leaders. Their terms never fall.
func (w *world) see(ctx context.Context, kind string) {
	defer close(w.seeing)
	latch, err1 := leader.NewLeaderLatch(w.theirs, election)
	selector, err2 := leader.NewLeaderSelector(w.theirs, election)
	if err := errors.Join(err1, err2); err != nil {
		panic(err) // the arguments are good
	}
	leaders := latch.Observe(ctx)
	if kind == selectorKind {
		leaders = selector.Observe(ctx)
	}
	var newest int64
	for l, err := range leaders {
		w.mu.Lock()
		switch {
		case err != nil && ctx.Err() == nil:
			w.brokenLockedf("the observer failed: %v", err)
		case err == nil && l != nil && l.Token < newest:
			w.brokenLockedf("the observer saw term %d after %d", l.Token, newest)
		case err == nil && l != nil:
			newest = l.Token
		}
		w.mu.Unlock()
	}
}

// begins notes a leadership. All before it must be over, unless they were hurt
// from outside: then the server may tell the rival first.
func (w *world) begins(c *candidate, lease *locks.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, earlier := range w.terms {
		if earlier.Err() == nil && lease.Err() == nil && !w.hurt[earlier.Path()] {
			w.brokenLockedf("term %d leads, and so does %d", earlier.Token(), lease.Token())
		}
		if earlier.Token() >= lease.Token() {
			w.brokenLockedf("term %d after %d", lease.Token(), earlier.Token())
		}
	}
	w.terms = append(w.terms, modelTerm{lease, c})
}

// step does something at random.
func (w *world) step() {
	c := w.candidates[w.random.IntN(len(w.candidates))]
	switch n := w.random.IntN(12); {
	case c.stop == nil && n < 8:
		w.didf("start %d", c.index)
		c.stand(c)
	case n < 3:
		w.didf("resign %d", c.index)
		c.resigns()
	case n == 3:
		w.didf("stop %d", c.index)
		c.stops()
	case n == 4:
		w.didf("cut %d", c.index)
		c.link.Cut()
	case n == 5:
		w.didf("unplug %d", c.index)
		c.link.Refuse(true)
		c.link.Cut()
	case n == 6:
		w.didf("plug %d", c.index)
		c.link.Refuse(false)
	case n == 7:
		w.kill(c)
	case n == 8:
		w.deleteNode()
	case n == 9:
		w.didf("silence %d", c.index)
		c.link.Blackhole(zkproxy.Both)
	case n == 10:
		w.didf("heal %d", c.index)
		c.link.Heal()
	}
	pause := []time.Duration{0, time.Millisecond, 50 * time.Millisecond, time.Second, 4 * time.Second, 12 * time.Second}[w.random.IntN(6)]
	w.didf("pause %v", pause)
	time.Sleep(pause)
	w.check()
}

// kill ends the session of a candidate at the server.
func (w *world) kill(c *candidate) {
	session := c.client.Session()
	w.didf("kill the session of %d", c.index)
	w.hurts(func(term modelTerm) bool { return term.of == c })
	w.server.KillSession(session.ID())
}

// hurts notes the leaderships that what follows may end from outside.
func (w *world) hurts(which func(modelTerm) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, term := range w.terms {
		if term.Err() == nil && which(term) {
			w.hurt[term.Path()] = true
		}
	}
}

// deleteNode deletes the node of some candidate.
func (w *world) deleteNode() {
	names, err := w.theirs.Children(w.t.Context(), election)
	if err != nil || len(names) == 0 {
		return // nobody has stood yet
	}
	node := path.Join(election, names[w.random.IntN(len(names))])
	w.didf("delete %s", node[strings.LastIndex(node, "-"):])
	w.hurts(func(term modelTerm) bool { return term.Path() == node })
	err = w.theirs.Delete(w.t.Context(), node)
	if !errors.Is(err, framework.ErrNoNode) {
		require.NoError(w.t, err)
	}
}

// check looks at what the candidates have noted.
func (w *world) check() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	leads := 0
	for _, lease := range w.terms {
		if lease.Err() == nil && !w.hurt[lease.Path()] {
			leads++
		}
	}
	if leads > 1 {
		w.brokenLockedf("%d leaders at once", leads)
	}
	require.Empty(w.t, w.broken, "%s:\n%s", w.name, strings.Join(w.story, "\n"))
}

// heal ends all trouble, and has all candidates stand. Somebody leads soon.
func (w *world) heal() {
	for _, c := range w.candidates {
		c.link.Refuse(false)
		c.link.Heal()
		if c.stop == nil {
			c.stand(c)
		}
	}
	w.didf("heal")
	for deadline := time.Now().Add(healedWithin); ; time.Sleep(100 * time.Millisecond) {
		w.check()
		if w.somebodyLeads() {
			return
		}
		require.True(w.t, time.Now().Before(deadline), "%s: there is no leader:\n%s", w.name, strings.Join(w.story, "\n"))
	}
}

func (w *world) somebodyLeads() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.terms) > 0 && w.terms[len(w.terms)-1].Err() == nil
}

// end stops all. Nothing is left then.
func (w *world) end() {
	for _, c := range w.candidates {
		c.stops()
	}
	w.stopSeeing()
	<-w.seeing
	w.check()
	for deadline := time.Now().Add(healedWithin); ; time.Sleep(100 * time.Millisecond) {
		stats := w.server.Stats()
		if stats.Ephemerals == 0 && stats.Watches == 0 {
			return
		}
		require.True(w.t, time.Now().Before(deadline), "%s: %d nodes and %d watches are left:\n%s",
			w.name, stats.Ephemerals, stats.Watches, strings.Join(w.story, "\n"))
	}
}

func (c *candidate) resigns() {
	if c.resign != nil {
		c.resign()
	}
}

func (c *candidate) stops() {
	if c.stop != nil {
		c.stop()
		c.stop, c.resign = nil, nil
	}
}

// standByLatch stands with a latch, in the background.
func (c *candidate) standByLatch() {
	latch, err := leader.NewLeaderLatch(c.client, election, c.opts...)
	require.NoError(c.w.t, err)
	leads, last := false, int64(0)
	registration := latch.OnChange(func(change leader.Change) {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		if change.Leader == leads || !leads && change.Term <= last || leads && change.Term != last || change.Leader != (change.Err == nil) {
			c.w.brokenLockedf("candidate %d was told %+v, after term %d, and it led: %v", c.index, change, last, leads)
		}
		leads, last = change.Leader, change.Term
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			lease, err := latch.Await(context.Background())
			if errors.Is(err, leader.ErrClosed) {
				return
			}
			if err != nil {
				c.w.didf("candidate %d: %v", c.index, err)
				continue
			}
			c.w.begins(c, lease)
			<-lease.Done()
		}
	}()
	c.resign = func() {
		go func() { _ = latch.Resign(context.Background()) }() // it waits while there is no connection
	}
	c.stop = func() {
		if err := latch.Close(); err != nil {
			c.w.didf("close: %v", err)
		}
		<-ended
		if latch.HasLeadership() {
			c.w.t.Errorf("%s: candidate %d leads after its close", c.w.name, c.index)
		}
		registration.Remove()
		<-registration.Done()
	}
	require.NoError(c.w.t, latch.Start())
}

// standBySelector stands with a selector that leads until it is interrupted.
func (c *candidate) standBySelector() {
	selector, err := leader.NewLeaderSelector(c.client, election, append(c.opts, leader.WithAutoRequeue())...)
	require.NoError(c.w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := selector.Run(ctx, func(ctx context.Context) error {
			if ctx.Err() == nil {
				c.w.begins(c, locks.LeaseFrom(ctx))
			}
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), leader.ErrInterrupted) {
				return nil
			}
			return context.Cause(ctx)
		})
		if ctx.Err() == nil {
			c.w.mu.Lock()
			defer c.w.mu.Unlock()
			c.w.brokenLockedf("the run of %d has ended: %v", c.index, err)
		}
	}()
	c.resign = func() { selector.InterruptLeadership() }
	c.stop = func() {
		cancel()
		<-ended
	}
}
