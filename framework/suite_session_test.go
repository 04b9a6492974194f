// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zktest"
)

// sessionRows are about connections and sessions.
var sessionRows = []row{
	{"session", func(s *script) {
		f := s.client(framework.WithSessionTimeout(4*time.Second), framework.WithErrorPolicy(framework.SessionErrorPolicy))
		session := f.Session()
		s.sayf("named %t", session.String() == fmt.Sprintf("0x%x", session.ID()))
		s.sayf("timeout %v, policy %v, state %v", session.Timeout(), f.ErrorPolicy(), f.State())
		s.sayf("certain %t", time.Until(session.Deadline()) > 0)
		s.sayf("password %d bytes", len(session.Password()))
		for _, policy := range []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy} {
			held, release, err := session.Hold(s.ctx, policy)
			s.done(err)
			s.done(held.Err())
			release()
		}
		told := make(chan framework.ConnectionState, 10)
		defer f.OnConnectionState(func(state framework.ConnectionState) { told <- state }).Remove()
		held := session.Context(framework.StandardErrorPolicy)
		zktest.KillSession(s, f)
		<-session.Done()
		s.done(session.Err())
		<-session.LossContext().Done()
		s.done(context.Cause(session.LossContext()))
		s.sayf("held until %v", context.Cause(held))
		state := next(s, told)
		s.sayf("first %v", state)
		for state != framework.Lost {
			state = next(s, told)
		}
		s.sayf("then %v and %v", state, next(s, told))
		s.done(f.Health().Err)
		s.sayf("another session %t", f.Session().ID() != session.ID())
	}},
	{"session/quorum", func(s *script) {
		held, release, err := s.f.Session().Hold(s.ctx, framework.QuorumErrorPolicy)
		s.done(err)
		s.done(held.Err())
		s.sayf("certain %t", time.Until(s.f.Session().HoldDeadline(framework.QuorumErrorPolicy)) > 0)
		beats := heartbeats(s.T, s.f)
		s.sayf("%d heartbeats", len(beats))
		release()
		for _, name := range beats {
			s.untilGone("/" + name)
		}
		s.sayf("held until %v", context.Cause(held))
	}},
	{"retry", func(s *script) {
		once := framework.WithRetry(retry.None())
		s.data(s.f.Get(s.ctx, "/node", once))
		s.done(s.f.Set(s.ctx, "/node", nil, once, framework.WithVersion(3)))
		s.data(s.f.Get(s.ctx, "/node", framework.WithRetry(nil)))
		s.done(s.f.Pipeline(s.ctx, framework.ReadData("/node", nil, once), framework.ReadData("/node", nil)))
		s.results(s.f.Transact(s.ctx, framework.CreateOp("/a", nil, once)))
		tries := 0
		op := func(err error) func(context.Context) error {
			return func(ctx context.Context) error {
				tries++
				if tries < 3 {
					return err
				}
				_, err := s.f.Get(ctx, "/node")
				return err
			}
		}
		twice := framework.WithRetry(retry.NTimes(2, time.Millisecond))
		for _, err := range []error{framework.ErrConnectionLost, framework.ErrNoNode} {
			for _, opts := range [][]framework.CallOption{{twice}, {once}} {
				tries = 0
				s.done(s.f.Retry(s.ctx, op(err), opts...))
				s.sayf("%d tries", tries)
			}
		}
	}},
	{"life of a client", func(s *script) {
		f := must.Get(framework.New(s.connectString, framework.WithRetryPolicy(retry.None()),
			framework.WithConnectionTimeout(10*time.Second)))(s)
		s.data(f.Get(s.ctx, "/node"))
		s.done(f.Health().Err)
		s.sayf("%d servers, named %t", len(f.Servers()), f.String() == s.connectString)
		s.sayf("warns %t, chats %t", f.Logger().Enabled(s.ctx, slog.LevelWarn), f.Logger().Enabled(s.ctx, slog.LevelInfo))
		_, again := f.RetryPolicy().Next(0, 0, framework.ErrNotConnected)
		s.sayf("retries %t", again)
		s.done(f.Start())
		s.done(f.BlockUntilConnected(s.ctx))
		s.data(f.Get(s.ctx, "/node"))
		cancelled, cancel := context.WithCancel(s.ctx)
		cancel()
		s.data(f.Get(cancelled, "/node"))
		s.done(f.Set(cancelled, "/node", nil))
		s.done(f.Delete(cancelled, "/node", framework.Guaranteed()))
		s.awaitGone("/node")
		s.done(f.Close())
		s.done(f.Close())
		s.data(f.Get(s.ctx, "/node"))
		s.done(f.Delete(s.ctx, "/node", framework.InBackground()))
		s.done(f.Start())
		s.done(f.BlockUntilConnected(s.ctx))
		s.done(f.Health().Err)
	}},
}
