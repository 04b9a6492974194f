// SPDX-License-Identifier: Apache-2.0

package hardship

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	whileItWaits = 100 * time.Millisecond // long enough for all that a waiter does by itself
	roundTrip    = 10 * time.Millisecond
	settling     = 5 * time.Second // for what goes on in the background
)

// stage is a Stage in a bubble of its own, with what was there before the call.
type stage struct {
	Stage

	call     Call
	made     func(context.Context) error
	requests atomic.Int64 // of the caller
	before   zkserver.Stats
	routines int // of the bubble
	all      int // of the process
	bubble   []byte
	paths    int
	states   chan framework.ConnectionState
	session  *framework.Session
}

// onStage runs a test of a call on a stage, on a fake clock.
func onStage(t *testing.T, call Call, opts func(framework.Dialer) []framework.Option, test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		s := &stage{call: call, bubble: bubble(), states: make(chan framework.ConnectionState, 1000)}
		s.T, s.Name, s.Server, s.Link = t, call.Name, server, zktest.NewProxy(t, server)
		s.Ours, s.Theirs = connect(t, s.Link, opts), zktest.Client(t, server)
		s.session = s.Ours.Session()
		for _, client := range []*framework.Framework{s.Ours, s.Theirs} {
			require.NoError(t, client.Sync(t.Context(), "/"))
		}
		s.Ours.OnConnectionState(func(state framework.ConnectionState) { s.states <- state })
		session := s.session.ID()
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == session && r.Op != zkserver.OpPing && r.Op != zkserver.OpCreateSession {
				s.requests.Add(1)
			}
			return zkserver.Pass
		})
		synctest.Wait()
		s.routines, s.all = s.goroutines(), runtime.NumGoroutine()
		test(s)
	})
}

const servers = "memory:2181"

// sleep lets time pass, which is fake.
func sleep(d time.Duration) { <-time.After(d) }

// connect connects a client through the link. Unless an option provides them, the servers
// are those of the link.
func connect(t *testing.T, link *zkproxy.Proxy, more func(framework.Dialer) []framework.Option) *framework.Framework {
	t.Helper()
	opts := []framework.Option{
		framework.WithEnsembleProvider(framework.FixedEnsembleProvider(servers)), framework.WithDialer(link.Dial),
		framework.WithSessionTimeout(10 * time.Second), framework.WithLogger(slog.New(slog.DiscardHandler)),
		framework.WithServerTiming(2*time.Second, 2), // or the first hold asks whether the timeout is safe
	}
	if more != nil {
		opts = append(opts, more(link.Dial)...)
	}
	client, err := framework.Connect(t.Context(), "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // its server may be out of reach
	return client
}

// Ephemerals returns the ephemeral znodes at the path of the stage and below it.
func (s *Stage) Ephemerals() []string { return s.ephemerals(s.Path) }

func (s *Stage) ephemerals(path string) (paths []string) {
	stat, err := s.Theirs.Exists(context.Background(), path)
	require.NoError(s.T, err, s.Name)
	switch {
	case stat == nil:
		return nil
	case stat.EphemeralOwner != 0:
		return []string{path}
	}
	names, err := s.Theirs.Children(context.Background(), path)
	if !errors.Is(err, framework.ErrNoNode) {
		require.NoError(s.T, err, s.Name)
	}
	for _, name := range names {
		paths = append(paths, s.ephemerals(path+"/"+name)...)
	}
	return paths
}

// preparef prepares the call on a path of its own.
func (s *stage) preparef(format string, args ...any) {
	s.paths++
	s.Path = fmt.Sprintf("/stage-%d", s.paths)
	s.Name = s.call.Name + ": " + fmt.Sprintf(format, args...)
	s.Later, s.Rival, s.Returned, s.End = func() {}, func() {}, func(error) {}, func(error) {}
	s.before = s.Server.Stats()
	s.made = s.call.Prepare(&s.Stage)
	synctest.Wait()
	s.requests.Store(0)
}

// attempt makes the call, and the rival what it does later. It fails the test when the call has
// not returned so long after that.
func (s *stage) attempt(ctx context.Context, within time.Duration) (took time.Duration, err error) {
	s.T.Helper()
	result, began := s.begin(ctx), time.Now()
	select {
	case err = <-result:
		took = time.Since(began)
		s.Later()
		return took, err
	case <-time.After(whileItWaits):
	}
	s.Later()
	select {
	case err = <-result:
		return time.Since(began), err
	case <-time.After(within):
		s.failf("the call has not returned within %v", within)
		return 0, nil
	}
}

// begin makes the call in the background.
func (s *stage) begin(ctx context.Context) <-chan error {
	result := make(chan error, 1)
	go func() { result <- s.made(ctx) }()
	return result
}

// failf ends the test, with the stacks of the bubble.
func (s *stage) failf(format string, args ...any) {
	s.T.Helper()
	_, stacks := s.dump()
	require.FailNow(s.T, s.Name, "%s\n%s", fmt.Sprintf(format, args...), stacks)
}

// end gives back what is held, and checks that soon nothing is left.
func (s *stage) end(err error) {
	s.T.Helper()
	s.Returned(err)
	s.End(err)
	s.clean(settling)
}

// clean checks that in time there is not more than before the call was prepared.
func (s *stage) clean(within time.Duration) {
	s.T.Helper()
	for deadline := time.Now().Add(within); ; sleep(50 * time.Millisecond) {
		synctest.Wait()
		now := s.Server.Stats()
		nodes, watches, sessions := now.Ephemerals-s.before.Ephemerals, now.Watches-s.before.Watches, now.Sessions-s.before.Sessions
		more := 0
		if runtime.NumGoroutine() > s.all { // otherwise there is no need to look at each
			more = s.goroutines() - s.routines
		}
		if nodes <= 0 && watches <= 0 && sessions <= 0 && more <= 0 {
			return
		}
		if time.Now().After(deadline) {
			s.failf("%d ephemeral nodes, %d watches, %d sessions and %d goroutines are left after %v", nodes, watches, sessions, more, within)
		}
	}
}

// bounded checks how many requests the caller has made since the call was prepared.
func (s *stage) bounded(most int) {
	s.T.Helper()
	if n := int(s.requests.Load()); n > most {
		s.failf("%d requests, at most %d are allowed", n, most)
	}
}

// sameSession checks that the caller has kept its session, and in its own view has never lost it.
func (s *stage) sameSession() {
	s.T.Helper()
	require.NoError(s.T, s.session.Err(), s.Name)
	require.Same(s.T, s.session, s.Ours.Session(), s.Name)
}

// allowed checks how the call has ended: with success, or as its row or the hardship lets it.
func (s *stage) allowed(err error, may ...func(error) bool) {
	s.T.Helper()
	if err == nil || s.call.May != nil && s.call.May(err) {
		return
	}
	for _, is := range may {
		if is(err) {
			return
		}
	}
	s.failf("the call ended with %v", err)
}

var ofABubble = regexp.MustCompile(`synctest bubble \d+`)

// bubble names the bubble of the goroutine, as stacks do.
func bubble() []byte {
	b := make([]byte, 200)
	return append(ofABubble.Find(b[:runtime.Stack(b, false)]), ']')
}

// goroutines counts those of the bubble.
func (s *stage) goroutines() int {
	n, _ := s.dump()
	return n
}

// stackBuffer is shared by all stages: they come one after the other.
var stackBuffer = make([]byte, 1<<20)

func (s *stage) dump() (n int, stacks []byte) {
	for {
		k := runtime.Stack(stackBuffer, true)
		if k < len(stackBuffer) {
			return bytes.Count(stackBuffer[:k], s.bubble), stackBuffer[:k]
		}
		stackBuffer = make([]byte, 2*len(stackBuffer))
	}
}
