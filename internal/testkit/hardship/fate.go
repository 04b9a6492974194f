// SPDX-License-Identifier: Apache-2.0

package hardship

import (
	"context"
	"errors"
	"slices"
	"testing/synctest"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
)

// Fate is what becomes of one request of a call.
type Fate struct {
	Name string
	Ends bool // the caller's context ends at the same moment

	fault  zkserver.Fault
	before func(*Strike)    // what else is done at the server; may be nil
	unlike bool             // no server answers so when it is asked to remove a watch
	may    func(error) bool // how any call may end because of it; may be nil
}

// NoFate is the fate of a request that nothing happens to.
var NoFate = Fate{Name: "(none)"}

// The error codes that a server answers with.
const (
	noAuth         = -102
	sessionExpired = -112
	throttled      = -127
)

// Fates are all fates. Where the context goes on, the call gets over the fault, and over
// the end of its session. Where the context ends, the call leaves nothing.
var Fates = []Fate{
	{Name: "lost with the connection", fault: zkserver.LoseRequest},
	{Name: "applied, and the reply lost with the connection", fault: zkserver.LoseReply},
	{Name: "never answered", fault: zkserver.NeverAnswer},
	{Name: "applied and never answered", fault: zkserver.ApplyNeverAnswer},
	{Name: "lost with the connection and the session", fault: zkserver.LoseRequest, before: (*Strike).kill},
	{Name: "applied, the reply lost with the connection, and then the session ends", fault: zkserver.LoseReply, before: (*Strike).killLater},
	{Name: "applied, the reply lost with the connection, and the next server is behind", fault: zkserver.LoseReply, before: (*Strike).fallBehind},
	{Name: "refused", fault: zkserver.FailWith(noAuth), unlike: true, may: isRefused},
	{Name: "throttled", fault: zkserver.FailWith(throttled)},
	{Name: "answered that the session has expired", fault: zkserver.FailWith(sessionExpired), unlike: true},
	{Name: "answered, and the context ends", fault: zkserver.Pass, Ends: true},
	{Name: "lost with the connection, and the context ends", fault: zkserver.LoseRequest, Ends: true},
	{Name: "applied, the reply lost with the connection, and the context ends", fault: zkserver.LoseReply, Ends: true},
	{Name: "never answered, and the context ends", fault: zkserver.NeverAnswer, Ends: true},
	{Name: "applied and never answered, and the context ends", fault: zkserver.ApplyNeverAnswer, Ends: true},
}

func isRefused(err error) bool { return errors.Is(err, framework.ErrNoAuth) }

func (f Fate) refuses() bool { return f.may != nil }

// Explains reports whether any call may end with the error because of the fate.
func (f Fate) Explains(err error) bool { return err != nil && f.may != nil && f.may(err) }

// HurtsSession reports whether the fate changes something at the server that the client
// learns only with its next connection.
func (f Fate) HurtsSession() bool { return f.before != nil }

// catchingUp is how long a server is behind.
const catchingUp = 3 * time.Second

// Strike is a fate on its way to a request of a session.
type Strike struct {
	server  *zkserver.Server
	session int64

	requests int
	thaw     func() // lets the session's server catch up; nil while that is not behind
	remove   func()
}

// Strike gives the fate to the k-th of the next requests of a session, the first being 1. The
// function cancel ends the caller's context. Strike must run in a bubble of synctest.
func (f Fate) Strike(server *zkserver.Server, session int64, k int, cancel context.CancelFunc) *Strike {
	s := &Strike{server: server, session: session}
	s.remove = server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID != session || slices.Contains(ofTheConnection, r.Op) {
			return zkserver.Pass
		}
		if s.thaw != nil && !slices.Contains(ofAFollower, r.Op) {
			s.thaw()
		}
		if s.requests++; s.requests != k {
			return zkserver.Pass
		}
		if f.unlike && r.Op == zkserver.OpRemoveWatches {
			return zkserver.Pass
		}
		if f.Ends {
			cancel()
		}
		if f.before != nil {
			f.before(s)
		}
		return f.fault
	})
	return s
}

// End stops the strike, lets a server that is behind catch up, and returns the number of
// requests that the session has made.
func (s *Strike) End() (requests int) {
	synctest.Wait() // no hook is running
	requests = s.requests
	s.remove()
	if s.thaw != nil {
		s.thaw()
	}
	return requests
}

// ofTheConnection are the requests that come with a connection, without a call.
var ofTheConnection = []zkserver.OpCode{zkserver.OpPing, zkserver.OpCreateSession}

// ofAFollower are the requests that a server answers even when it is behind. For any other
// it catches up first.
var ofAFollower = []zkserver.OpCode{
	zkserver.OpExists, zkserver.OpGetData, zkserver.OpGetACL, zkserver.OpGetChildren, zkserver.OpGetChildren2,
}

// kill ends the session before the request.
func (s *Strike) kill() { s.server.KillSession(s.session) }

// killLater ends the session after the request, before its client is connected again.
func (s *Strike) killLater() {
	allow := s.server.Refuse()
	time.AfterFunc(time.Millisecond, func() {
		s.server.KillSession(s.session)
		allow()
	})
}

// fallBehind has the session read what was true before the request, as from a server that
// has not heard more, until that has caught up.
func (s *Strike) fallBehind() {
	s.thaw = s.server.FreezeReads(s.session)
	time.AfterFunc(catchingUp, s.thaw)
}
