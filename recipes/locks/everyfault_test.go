package locks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/seeds"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// requestFate is what becomes of one request of a call.
type requestFate struct {
	name   string
	fault  zkserver.Fault
	ends   bool                              // the caller's context ends at the same moment
	before func(c *faultCell, session int64) // what else is done to the caller before; may be nil
	may    func(error) bool                  // how any call may end because of it; may be nil
}

// requestFates are all of them. Where the context goes on, the call has to get over the
// fault, and over the end of its session, but for what no client may get over; where it
// ends, the call has to leave nothing.
var requestFates = []requestFate{
	{name: "lost with the connection", fault: zkserver.LoseRequest},
	{name: "applied, and the reply lost with the connection", fault: zkserver.LoseReply},
	{name: "never answered", fault: zkserver.NeverAnswer},
	{name: "applied and never answered", fault: zkserver.ApplyNeverAnswer},
	{name: "lost with the connection and the session", fault: zkserver.LoseRequest, before: (*faultCell).kill},
	{name: "applied, the reply lost with the connection, and then the session ends", fault: zkserver.LoseReply, before: (*faultCell).killLater},
	{name: "applied, the reply lost with the connection, and the next server is behind", fault: zkserver.LoseReply, before: (*faultCell).fallBehind},
	{name: "refused", fault: zkserver.FailWith(noAuth), may: isRefused},
	{name: "throttled", fault: zkserver.FailWith(throttled)},
	{name: "answered that the session has expired", fault: zkserver.FailWith(sessionExpired)},
	{name: "answered, and the context ends", fault: zkserver.Pass, ends: true},
	{name: "lost with the connection, and the context ends", fault: zkserver.LoseRequest, ends: true},
	{name: "applied, the reply lost with the connection, and the context ends", fault: zkserver.LoseReply, ends: true},
	{name: "never answered, and the context ends", fault: zkserver.NeverAnswer, ends: true},
	{name: "applied and never answered, and the context ends", fault: zkserver.ApplyNeverAnswer, ends: true},
}

// The error codes that a server answers with.
const (
	noAuth         = -102
	sessionExpired = -112
	throttled      = -127
)

// kill ends the session before the request.
func (c *faultCell) kill(session int64) { c.server.KillSession(session) }

// killLater ends the session after the request, before its client is connected again.
func (c *faultCell) killLater(session int64) {
	allow := c.server.Refuse()
	time.AfterFunc(time.Millisecond, func() {
		c.server.KillSession(session)
		allow()
	})
}

// fallBehind has the session read what was true before the request, as the server that it is
// connected to next has not heard more, until that has caught up.
func (c *faultCell) fallBehind(session int64) {
	c.thaw = c.server.FreezeReads(session)
	time.AfterFunc(catchingUp, c.thaw)
}

func isRefused(err error) bool { return errors.Is(err, framework.ErrNoAuth) }

// faultedPolicies are those of the caller: with every connection its holds end, or they
// outlive it with the session, and what has happened meanwhile is to be found out. What
// QuorumErrorPolicy adds is an earlier end by the clock, which faketime_test.go has. With -short there is
// the first only, which is the default.
func faultedPolicies() []framework.ErrorPolicy {
	if testing.Short() && !seeds.Long() {
		return []framework.ErrorPolicy{framework.StandardErrorPolicy}
	}
	return []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy}
}

// fatesUnder returns the fates of the k-th request under a policy. Of three fates one is left
// of the second policy, another for each request, unless the run is long.
func fatesUnder(policy framework.ErrorPolicy, k int) []requestFate {
	if policy == framework.StandardErrorPolicy || seeds.Long() {
		return requestFates
	}
	var fates []requestFate
	for i := k % 3; i < len(requestFates); i += 3 {
		fates = append(fates, requestFates[i])
	}
	return fates
}

// faultedCall is a call of a recipe, in one situation.
type faultedCall struct {
	name     string
	of       []string // the methods that it calls, as Type.Method
	requests int      // that it makes, with those of what it has acquired, when nothing goes wrong
	prepare  func(c *faultCell) func(ctx context.Context) error
	may      []func(error) bool // how it may end, other than with success, although its context goes on
	fails    bool               // it never succeeds
}

// faultCell is one run of a call: its caller is a client of its own, as is the rival.
type faultCell struct {
	t      *testing.T
	name   string
	path   string // which no other cell uses
	server *zkserver.Server
	ours   *framework.Framework
	theirs *framework.Framework

	routines int // of the bubble, at rest
	process  int // of the process, at rest

	mu       sync.Mutex
	passesOn bool // what is acquired is given back at once, as by many who make the call together

	thaw func() // lets the caller's server catch up; nil while that is not behind

	held   []*locks.Lease           // what the caller has, before the call and by it
	rivals []locks.InterProcessLock // of theirs; kept out as long as anything held is valid
	again  []locks.InterProcessLock // of ours; to be acquired afterwards
	later  func()                   // what the rival does while the call waits; may be nil
	tidy   func()                   // what the rival does afterwards; may be nil
	check  func(err error)          // what else follows from the outcome; may be nil
}

const (
	whileItWaits = 100 * time.Millisecond // long enough for all that a waiter does by itself
	whileItHolds = 10 * time.Millisecond  // and for what a holder does
	forACall     = 2 * time.Minute        // no call takes longer, whatever becomes of its requests
	atOnce       = time.Second            // whoever comes afterwards waits no longer
	catchingUp   = 3 * time.Second        // of a server that is behind
)

// cellsEnv names the environment variable with the file that is told how many cells there were: of a test
// that passes go test shows no log.
const cellsEnv = "CURATOR_CELLS"

// TestEveryFaultAtEveryRequest makes every call that a recipe has, in every situation,
// with every fate of every request that it makes. Each time the call ends as it
// is documented to, nobody else holds what it holds, the rival gets it afterwards, as does
// the caller, and neither znode nor watch nor goroutine is left.
//
// How many requests a call makes is part of the table: one that makes others is noticed.
func TestEveryFaultAtEveryRequest(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // nothing in a bubble waits for another processor: it saves a third of the time
	cells, made, calls, policies := 0, 0, faultedCalls(), faultedPolicies()
	for _, call := range calls {
		t.Run(call.name, func(t *testing.T) {
			for _, policy := range policies {
				t.Run(policy.String(), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { cells += call.runAll(t, policy) })
					made++
				})
			}
		})
	}
	count := fmt.Sprintf("%d cells: %d calls, each of their requests, %d fates; policies: %v", cells, len(calls), len(requestFates), policies)
	t.Log(count)
	if file := os.Getenv(cellsEnv); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(count+"\n"), 0o600))
	}
	if made == len(calls)*len(policies) { // unless -run has left some out
		fates := 0
		for _, policy := range policies {
			fates += len(fatesUnder(policy, 0))
		}
		require.Equal(t, requestsOfAllCalls*fates, cells)
	}
}

// runAll runs the cells of a call, one after the other: a client that has got over one
// fault has to get over the next.
func (f faultedCall) runAll(t *testing.T, policy framework.ErrorPolicy) (cells int) {
	server := zktest.NewServer(t, zkserver.WithoutListener())
	ours, theirs := zktest.Client(t, server, framework.WithErrorPolicy(policy)), zktest.Client(t, server)
	syncAll(t, ours, theirs)
	routines, _ := goroutinesOfBubbles()
	process := runtime.NumGoroutine()
	run := func(k int, fate requestFate) int {
		cells++
		c := &faultCell{
			t: t, routines: routines, process: process, name: fmt.Sprintf("request %d %s", k, fate.name), path: fmt.Sprintf("/cell-%d", cells),
			server: server, ours: ours, theirs: theirs,
		}
		return c.run(f, k, fate)
	}
	require.Equal(t, f.requests, run(0, requestFate{name: "(none)"}), "requests of the call when nothing goes wrong")
	for k := range f.requests {
		for _, fate := range fatesUnder(policy, k) {
			require.GreaterOrEqual(t, run(k+1, fate), k+1, "requests of the call")
		}
	}
	return cells - 1
}

// run runs one cell and returns how many requests the call has made.
func (c *faultCell) run(f faultedCall, k int, fate requestFate) (requests int) {
	before := c.server.Stats()
	call := f.prepare(c)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	remove, count := c.intercept(k, fate, cancel)

	result := make(chan error, 1)
	go func() { result <- call(ctx) }()
	time.Sleep(whileItWaits)
	synctest.Wait()
	if c.later != nil {
		c.later()
	}
	select {
	case err := <-result:
		time.Sleep(whileItHolds)
		requests = count()
		remove()
		if c.thaw != nil {
			c.thaw()
		}
		require.True(c.t, f.allows(err, fate), "%s: the call ended with %v", c.name, err)
		if fate.before != nil { // what was done at the server is told with the next connection
			syncAll(c.t, c.ours)
		}
		c.requireAlone()
		if c.check != nil {
			c.check(err)
		}
	case <-time.After(forACall):
		require.FailNow(c.t, "the call has not returned", c.name)
	}
	c.end()
	c.requireNothingLeft(before)
	return requests
}

// ofTheConnection are the requests that keep a session alive or come with a connection,
// whoever calls what.
var ofTheConnection = []zkserver.OpCode{zkserver.OpPing, zkserver.OpCreateSession}

// ofAFollower are the requests that a server answers which is behind. For any other it has to
// catch up first.
var ofAFollower = []zkserver.OpCode{
	zkserver.OpExists, zkserver.OpGetData, zkserver.OpGetACL, zkserver.OpGetChildren, zkserver.OpGetChildren2,
}

// intercept gives the k-th request of the call its fate.
func (c *faultCell) intercept(k int, fate requestFate, cancel context.CancelFunc) (remove func(), count func() int) {
	requests, session := 0, c.ours.Session().ID()
	remove = c.server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID != session || slices.Contains(ofTheConnection, r.Op) {
			return zkserver.Pass
		}
		if c.thaw != nil && !slices.Contains(ofAFollower, r.Op) {
			c.thaw()
		}
		if requests++; requests != k {
			return zkserver.Pass
		}
		if fate.ends {
			cancel()
		}
		if fate.before != nil {
			fate.before(c, session)
		}
		return fate.fault
	})
	return remove, func() int {
		synctest.Wait() // no hook is running
		return requests
	}
}

// allows tells whether the call may end so.
func (f faultedCall) allows(err error, fate requestFate) bool {
	if err == nil {
		return !f.fails
	}
	if fate.may != nil && fate.may(err) {
		return true
	}
	if fate.ends && f.tellsOfTheEnd(err) {
		return true
	}
	return slices.ContainsFunc(f.may, func(is func(error) bool) bool { return is(err) })
}

// tellsOfTheEnd reports whether the error is that of a call whose context has ended: of
// what deletes something the rest is pending.
func (f faultedCall) tellsOfTheEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, framework.ErrCleanupPending)
}

// isLost allows for a lease that was lost with the connection.
func isLost(err error) bool {
	var lost *locks.LostError
	return errors.As(err, &lost)
}

func isNotAcquired(err error) bool { return errors.Is(err, locks.ErrNotAcquired) }

// requireAlone checks that a rival gets the lock only when nothing that was held is valid
// any more.
func (c *faultCell) requireAlone() {
	for _, rival := range c.rivals {
		lease, err := rival.TryAcquire(context.Background())
		if err != nil {
			require.ErrorIs(c.t, err, locks.ErrNotAcquired, c.name)
			continue
		}
		for _, held := range c.held {
			require.Error(c.t, held.Err(), "%s: %v is held, and so is %v", c.name, held, lease)
		}
		require.NoError(c.t, lease.Release(context.Background()), c.name)
	}
}

// end releases what is held and has first the rivals and then the caller acquire.
func (c *faultCell) end() {
	for _, lease := range slices.Backward(c.held) {
		valid := lease.Err() == nil
		if err := lease.Release(context.Background()); valid || err != nil && !isLost(err) {
			require.NoError(c.t, err, c.name)
		}
	}
	if c.tidy != nil {
		c.tidy()
	}
	for _, lock := range slices.Concat(c.rivals, c.again) {
		ctx, cancel := context.WithTimeout(context.Background(), atOnce)
		lease, err := lock.Acquire(ctx)
		require.NoError(c.t, err, "%s: afterwards", c.name)
		require.NoError(c.t, lease.Release(ctx), "%s: afterwards", c.name)
		cancel()
	}
}

// requireNothingLeft checks that there is not more than before.
func (c *faultCell) requireNothingLeft(before zkserver.Stats) {
	syncAll(c.t, c.ours, c.theirs) // a reply that never comes is noticed with the next one
	time.Sleep(time.Second)
	synctest.Wait()
	after := c.server.Stats()
	require.Equal(c.t, []int{before.Ephemerals, before.Watches, before.Sessions},
		[]int{after.Ephemerals, after.Watches, after.Sessions}, "%s: ephemeral nodes, watches and sessions", c.name)
	if runtime.NumGoroutine() <= c.process {
		return // there is no need to look at each
	}
	if left, stacks := goroutinesOfBubbles(); left > c.routines {
		require.FailNow(c.t, "goroutines are left", "%s: %d, before it were %d\n%s", c.name, left, c.routines, stacks)
	}
}

var stacks = make([]byte, 1<<20)

// goroutinesOfBubbles counts without those that the garbage collector begins, for one.
func goroutinesOfBubbles() (n int, dump []byte) {
	dump = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(dump, []byte(", synctest bubble ")), dump
}

// syncAll has the clients talk to the server, so that all their goroutines run.
func syncAll(t *testing.T, clients ...*framework.Framework) {
	t.Helper()
	for _, client := range clients {
		require.NoError(t, client.Sync(context.Background(), "/"))
	}
	synctest.Wait()
}
