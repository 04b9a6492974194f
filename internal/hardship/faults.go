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
	before func(s *stage, session int64) // what else happens to the caller before; may be nil
	may    func(error) bool              // how any call may end because of it; may be nil
}

// The error codes that a server answers with.
const (
	noAuth         = -102
	sessionExpired = -112
	throttled      = -127
)

var fates = []fate{
	{name: "lost with the connection", fault: zkserver.LoseRequest},
	{name: "applied, and the reply lost with the connection", fault: zkserver.LoseReply},
	{name: "never answered", fault: zkserver.NeverAnswer},
	{name: "applied and never answered", fault: zkserver.ApplyNeverAnswer},
	{name: "lost with the connection and the session", fault: zkserver.LoseRequest, before: (*stage).kill, may: EndsWithASession},
	{name: "applied, the reply lost with the connection, and then the session ends", fault: zkserver.LoseReply, before: (*stage).killLater, may: EndsWithASession},
	{name: "applied, the reply lost with the connection, and the next server is behind", fault: zkserver.LoseReply, before: (*stage).fallBehind},
	{name: "refused", fault: zkserver.FailWith(noAuth), may: func(err error) bool { return errors.Is(err, framework.ErrNoAuth) }},
	{name: "throttled", fault: zkserver.FailWith(throttled)},
	{name: "answered that the session has expired", fault: zkserver.FailWith(sessionExpired), may: EndsWithASession},
	{name: "answered, and the context ends", fault: zkserver.Pass, ends: true},
	{name: "lost with the connection, and the context ends", fault: zkserver.LoseRequest, ends: true},
	{name: "applied, the reply lost with the connection, and the context ends", fault: zkserver.LoseReply, ends: true},
	{name: "never answered, and the context ends", fault: zkserver.NeverAnswer, ends: true},
	{name: "applied and never answered, and the context ends", fault: zkserver.ApplyNeverAnswer, ends: true},
}

// EndsWithASession reports whether the error is that of a call that needs one session.
func EndsWithASession(err error) bool {
	var lost *framework.LostError
	return errors.As(err, &lost) || errors.Is(err, framework.ErrSessionEnded) || errors.Is(err, framework.ErrSessionExpired)
}

// kill ends the session before the request.
func (s *stage) kill(session int64) { s.Server.KillSession(session) }

// killLater ends the session after the request, before its client is connected again.
func (s *stage) killLater(session int64) {
	allow := s.Server.Refuse()
	time.AfterFunc(time.Millisecond, func() {
		s.Server.KillSession(session)
		allow()
	})
}

// fallBehind has the session read for a while what was true before the request.
func (s *stage) fallBehind(session int64) {
	const catchingUp = 3 * time.Second
	s.thaw = s.Server.FreezeReads(session)
	time.AfterFunc(catchingUp, s.thaw)
}

// reads are the requests that a server answers which is behind. For any other it has to
// catch up first.
var reads = []zkserver.OpCode{
	zkserver.OpExists, zkserver.OpGetData, zkserver.OpGetACL, zkserver.OpGetChildren, zkserver.OpGetChildren2,
}

// Faults makes each call with every fate of every request that it makes. Each time the
// call ends, in time and as it may, its End finds the rest as it should be, and neither
// ephemeral node nor watch nor goroutine is left. How many requests a call makes is part
// of the table: one that makes others is noticed. With -short one fate of three is tried.
func Faults(t *testing.T, calls []Call) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // nothing in a bubble waits for another processor
	for _, call := range calls {
		t.Run(call.Name, func(t *testing.T) {
			onStage(t, call, nil, func(s *stage) {
				require.Equal(t, call.Requests, s.fault(0, fate{name: "(none)"}), "requests of the call when nothing goes wrong")
				for k := range call.Requests {
					for n, fate := range fates {
						if mine(call, k+n, 3) {
							s.fault(k+1, fate)
						}
					}
				}
			})
		})
	}
}

// fault makes the call, whose k-th request has a fate, and returns how many it has made.
func (s *stage) fault(k int, fate fate) (requests int) {
	const forACall = 2 * time.Minute
	s.preparef("request %d %s", k, fate.name)
	session := s.Ours.Session().ID()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	remove := s.Server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID != session || slices.Contains([]zkserver.OpCode{zkserver.OpPing, zkserver.OpCreateSession}, r.Op) {
			return zkserver.Pass
		}
		if s.thaw != nil && !slices.Contains(reads, r.Op) {
			s.thaw()
		}
		if requests++; requests != k {
			return zkserver.Pass
		}
		if fate.ends {
			cancel()
		}
		if fate.before != nil {
			fate.before(s, session)
		}
		return fate.fault
	})
	_, err := s.attempt(ctx, forACall)
	sleep(whileItWaits)
	synctest.Wait() // no hook is running
	remove()
	if s.thaw != nil {
		s.thaw()
		s.thaw = nil
	}
	ends := func(err error) bool { return fate.ends && (errors.Is(err, context.Canceled) || isPending(err)) }
	if fate.may == nil {
		fate.may = func(error) bool { return false }
	}
	s.allowed(err, fate.may, ends)
	require.GreaterOrEqual(s.T, requests, k, "%s: requests of the call", s.Name)
	made := requests
	require.NoError(s.T, s.Ours.BlockUntilConnected(context.Background()), s.Name)
	require.NoError(s.T, s.Ours.Sync(context.Background(), "/"), s.Name) // what was not answered is noticed
	s.end(err)
	return made
}
