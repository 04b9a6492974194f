package hardship

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
)

// fate is what becomes of one request of a call.
type fate struct {
	name   string
	fault  zkserver.Fault
	ends   bool                          // the caller's context ends at the same moment
	before func(s *stage, session int64) // what else is done to the caller; may be nil
	unlike bool                          // no server answers so when it is asked to remove a watch
	may    func(error) bool              // how any call may end because of it; may be nil
}

// The error codes that a server answers with.
const (
	noAuth         = -102
	sessionExpired = -112
	throttled      = -127
)

// fates are all of them. Where the context goes on, the call gets over the fault, and over
// the end of its session. Where the context ends, the call leaves nothing.
var fates = []fate{
	{name: "lost with the connection", fault: zkserver.LoseRequest},
	{name: "applied, and the reply lost with the connection", fault: zkserver.LoseReply},
	{name: "never answered", fault: zkserver.NeverAnswer},
	{name: "applied and never answered", fault: zkserver.ApplyNeverAnswer},
	{name: "lost with the connection and the session", fault: zkserver.LoseRequest, before: kill},
	{name: "applied, the reply lost with the connection, and then the session ends", fault: zkserver.LoseReply, before: killLater},
	{name: "applied, the reply lost with the connection, and the next server is behind", fault: zkserver.LoseReply, before: fallBehind},
	{name: "refused", fault: zkserver.FailWith(noAuth), unlike: true, may: isRefused},
	{name: "throttled", fault: zkserver.FailWith(throttled)},
	{name: "answered that the session has expired", fault: zkserver.FailWith(sessionExpired), unlike: true},
	{name: "answered, and the context ends", fault: zkserver.Pass, ends: true},
	{name: "lost with the connection, and the context ends", fault: zkserver.LoseRequest, ends: true},
	{name: "applied, the reply lost with the connection, and the context ends", fault: zkserver.LoseReply, ends: true},
	{name: "never answered, and the context ends", fault: zkserver.NeverAnswer, ends: true},
	{name: "applied and never answered, and the context ends", fault: zkserver.ApplyNeverAnswer, ends: true},
}

const (
	forACall   = 2 * time.Minute // no call takes longer, whatever becomes of its requests
	catchingUp = 3 * time.Second // of a server that is behind
)

func isRefused(err error) bool { return errors.Is(err, framework.ErrNoAuth) }

// kill ends the session before the request.
func kill(s *stage, session int64) { s.Server.KillSession(session) }

// killLater ends the session after the request, before its client is connected again.
func killLater(s *stage, session int64) {
	allow := s.Server.Refuse()
	time.AfterFunc(time.Millisecond, func() {
		s.Server.KillSession(session)
		allow()
	})
}

// fallBehind has the session read what was true before the request, as from a server that
// has not heard more, until that has caught up.
func fallBehind(s *stage, session int64) {
	s.thaw = s.Server.FreezeReads(session)
	time.AfterFunc(catchingUp, s.thaw)
}

// EveryFault makes each call with every fate of every request that it makes. Each time the
// call ends as it is documented to, [Stage.End] agrees with the outcome, and neither znode
// nor watch nor goroutine is left. The number of requests is part of the row: a call that
// makes others is noticed.
func EveryFault(t *testing.T, calls []Call) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // nothing in a bubble waits for another processor
	for _, call := range calls {
		t.Run(call.Name, func(t *testing.T) {
			onStage(t, call, nil, func(s *stage) {
				certain := call.Requests - call.Spares
				n := s.suffer(0, fate{name: "(none)"})
				require.True(s.T, certain <= n && n <= call.Requests, "%d requests when nothing goes wrong, expected %d to %d", n, certain, call.Requests)
				for k := range call.Requests {
					for _, f := range fates {
						require.GreaterOrEqual(s.T, s.suffer(k+1, f), min(k+1, certain), "%s: requests", s.Name)
					}
				}
			})
		})
	}
}

// suffer makes the call, gives its k-th request a fate, and returns how many it has made.
func (s *stage) suffer(k int, f fate) (requests int) {
	s.thaw, s.Refused = nil, f.may != nil
	s.preparef("request %d %s", k, f.name)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	remove, count := s.intercept(k, f, cancel)
	_, err := s.attempt(ctx, forACall)
	sleep(roundTrip)
	requests = count()
	remove()
	if s.thaw != nil {
		s.thaw()
	}
	if err == nil || f.may == nil || !f.may(err) {
		ended := func(err error) bool { return f.ends && (errors.Is(err, context.Canceled) || isPending(err)) }
		s.allowed(err, ended)
	}
	for _, client := range []*framework.Framework{s.Ours, s.Theirs} { // a reply that never comes is noticed with the next one
		require.NoError(s.T, client.Sync(context.Background(), "/"), s.Name)
	}
	s.end(err)
	s.drain()
	return requests
}

// drain forgets the states of the connection that nothing asks for.
func (s *stage) drain() {
	for {
		select {
		case <-s.states:
		default:
			return
		}
	}
}

// ofTheConnection are the requests that come with a connection, without a call.
var ofTheConnection = []zkserver.OpCode{zkserver.OpPing, zkserver.OpCreateSession}

// ofAFollower are the requests that a server answers even when it is behind. For any other
// it catches up first.
var ofAFollower = []zkserver.OpCode{
	zkserver.OpExists, zkserver.OpGetData, zkserver.OpGetACL, zkserver.OpGetChildren, zkserver.OpGetChildren2,
}

// intercept gives the k-th request of the caller's session its fate.
func (s *stage) intercept(k int, f fate, cancel context.CancelFunc) (remove func(), count func() int) {
	requests, session := 0, s.Ours.Session().ID()
	remove = s.Server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID != session || slices.Contains(ofTheConnection, r.Op) {
			return zkserver.Pass
		}
		if s.thaw != nil && !slices.Contains(ofAFollower, r.Op) {
			s.thaw()
		}
		if requests++; requests != k {
			return zkserver.Pass
		}
		if f.unlike && r.Op == zkserver.OpRemoveWatches {
			return zkserver.Pass
		}
		if f.ends {
			cancel()
		}
		if f.before != nil {
			f.before(s, session)
		}
		return f.fault
	})
	return remove, func() int {
		synctest.Wait() // no hook is running
		return requests
	}
}
