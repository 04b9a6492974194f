// SPDX-License-Identifier: Apache-2.0

package hardship

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// patience bounds what takes real time, generously: a call that needs it has failed.
const patience = 2 * time.Minute

// endings are what becomes of a request of a call at the moment at which its context ends.
var endings = []struct {
	name      string
	direction zkproxy.Direction
	verdict   zkproxy.Verdict
}{
	{"answered", zkproxy.ToServer, zkproxy.Pass},
	{"lost with the connection", zkproxy.ToServer, zkproxy.CutBefore},
	{"applied, and the reply lost with the connection", zkproxy.ToClient, zkproxy.CutBefore},
	{"never answered", zkproxy.ToServer, zkproxy.Drop},
	{"applied and never answered", zkproxy.ToClient, zkproxy.Drop},
}

// OnZooKeeper makes each call on a server that is reached by its address, as ZooKeeper is. It ends
// the context at each request of the call in turn, with each fate that a proxy can give to that
// request, and returns how many requests it met. Each time the call ends as it is documented to,
// [Stage.Returned] and [Stage.End] agree with the outcome, and neither znode nor watch is left.
// [Stage.Server] is nil.
//
// [EveryFault] has more fates, on the embedded server and a fake clock.
func OnZooKeeper(t *testing.T, server zktest.Backend, calls []Call) (cells int) {
	t.Helper()
	for _, call := range calls {
		t.Run(call.Name, func(t *testing.T) {
			a := address{call: call, backend: server}
			a.T, a.Theirs = t, zktest.Client(t, server.ConnectString())
			met, most := 0, 0
			for k := range call.Requests {
				for n, ending := range endings {
					if call.Requests > fewRequests && !mine(call, k+n, len(endings)) {
						continue
					}
					most++
					a.Path = fmt.Sprintf("/call-%d-%d", k+1, n)
					a.Name = fmt.Sprintf("%s: request %d %s, and the context ends", call.Name, k+1, ending.name)
					if a.end(k+1, ending.direction, ending.verdict) {
						met++
					}
				}
			}
			// A call may make fewer requests than by the fake clock, where all that waits is ready at once.
			require.GreaterOrEqual(t, 2*met, most, "requests at which the context ended, of %d", most)
			cells += met
		})
	}
	return cells
}

// address is a Stage at a server that is reached by its address, in real time.
type address struct {
	Stage

	call    Call
	backend zktest.Backend
}

// connect gives the caller a client of its own: one that has often lost its connection waits longer
// and longer before it connects again.
func (a *address) connect() {
	a.Link = zktest.NewProxy(a.T, a.backend.Addr())
	a.Ours = zktest.Client(a.T, a.backend.ConnectStringVia(a.Link.Addr()),
		framework.WithServerTiming(2*time.Second, 2), framework.WithLogger(slog.New(slog.DiscardHandler)))
}

// end makes the call, ends its context at the k-th request, and reports whether there was one.
func (a *address) end(k int, direction zkproxy.Direction, verdict zkproxy.Verdict) (met bool) {
	a.Later, a.Rival, a.Returned, a.End = func() {}, func() {}, func(error) {}, func(error) {}
	before := a.backend.Counts(a.T)
	a.connect()
	made := a.call.Prepare(&a.Stage)
	a.sync()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	struck := make(chan struct{})
	var once sync.Once
	last := a.Link.Requests() + k
	remove := a.Link.Intercept(func(frame zkproxy.Frame) zkproxy.Verdict {
		if frame.Index != last || frame.Direction != direction {
			return zkproxy.Pass
		}
		become := zkproxy.Verdict(zkproxy.Pass)
		once.Do(func() {
			become = verdict
			close(struck) // first: the end of the call must not be seen before it
			cancel()
		})
		return become
	})
	result := make(chan error, 1)
	go func() { result <- made(ctx) }()
	err := a.await(result, struck)
	remove()
	if err == nil && a.call.Fails {
		require.FailNow(a.T, a.Name, "the call has succeeded")
	}
	if err != nil && !errors.Is(err, context.Canceled) && !isPending(err) && (a.call.May == nil || !a.call.May(err)) {
		require.NoError(a.T, err, a.Name)
	}
	a.sync() // a reply that never comes is noticed with the next one
	a.Returned(err)
	a.End(err)
	require.NoError(a.T, a.Ours.Close(), a.Name)
	a.backend.AwaitCounts(a.T, before, patience)
	select {
	case <-struck:
		return true
	default:
		return false
	}
}

// await returns the result of the call. If nothing has become of it after a while, the rival does
// what it does while the call waits.
func (a *address) await(result <-chan error, struck <-chan struct{}) error {
	later := sync.OnceFunc(a.Later)
	defer func() { later() }()
	tooLong := time.After(patience)
	for waits := time.After(whileItWaits); ; {
		select {
		case err := <-result:
			return err
		case <-struck:
			// The next reply reveals that one is missing, and ends the wait of a call that ignores its context.
			require.NoError(a.T, a.Ours.Sync(context.Background(), "/"), a.Name)
			struck = nil
		case <-waits:
			later()
		case <-tooLong:
			require.FailNow(a.T, a.Name, "the call has not returned within %v", patience)
		}
	}
}

// sync has both clients talk to the server.
func (a *address) sync() {
	for _, client := range []*framework.Framework{a.Ours, a.Theirs} {
		require.NoError(a.T, client.Sync(zktest.Context(a.T), "/"), a.Name)
	}
}
