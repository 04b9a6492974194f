// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestSessionDeadlines touches 5,000 sessions with random timeouts at random times in random ways, and takes from the
// log when each has expired: in (T, T+tick] after its client has sent what touched it last.
func TestSessionDeadlines(t *testing.T) {
	t.Parallel()
	const (
		tick   = 500 * time.Millisecond
		cohort = 500 // sessions that live at the same time
	)
	sessions := 2_000
	if seeds.Long() {
		sessions = 5_000
	}
	random := seeds.New(t)
	earliest, latest := time.Hour, time.Duration(0)
	for range sessions / cohort {
		synctest.Test(t, func(t *testing.T) {
			srv := start(t, zkserver.WithoutListener(), zkserver.WithTick(tick))
			began := time.Now()
			mortals := make(map[int64]*mortal, cohort)
			for range cohort {
				time.Sleep(time.Duration(random.IntN(3_000_000)))
				m := newMortal(t, srv, random, tick)
				mortals[m.session] = m
			}
			for _, m := range mortals {
				go m.live()
			}
			time.Sleep(2 * time.Minute)
			require.Empty(t, srv.Sessions())
			for _, e := range srv.Log() {
				if e.Kind != zkserver.SessionExpired {
					continue
				}
				m := mortals[e.SessionID]
				lived := began.Add(e.At).Sub(m.touched) - m.timeout
				require.Positive(t, lived, "a session of %v has expired early", m.timeout)
				require.LessOrEqual(t, lived, tick, "a session of %v has expired late", m.timeout)
				earliest, latest = min(earliest, lived), max(latest, lived)
				delete(mortals, e.SessionID)
			}
			require.Empty(t, mortals)
		})
	}
	t.Logf("sessions expired from %v to %v after their timeouts", earliest, latest)
	require.Less(t, earliest, tick/100, "the bounds are not far from what happens")
	require.Greater(t, latest, tick*99/100, "the bounds are not far from what happens")
}

// mortal is a session that is touched a few times and then left alone.
type mortal struct {
	*rawClient

	t       *testing.T
	srv     *zkserver.Server
	timeout time.Duration
	touched time.Time
	random  *rand.Rand
}

// newMortal opens a session with a timeout of 2 to 20 ticks.
func newMortal(t *testing.T, srv *zkserver.Server, random *rand.Rand, tick time.Duration) *mortal {
	t.Helper()
	asked := 2*tick + time.Duration(random.Int64N(int64(18*tick)))
	m := &mortal{
		t: t, srv: srv, random: rand.New(rand.NewPCG(random.Uint64(), 0)),
		touched:   time.Now(),
		rawClient: dialed(t, srv, connection{timeoutMs: int32(asked.Milliseconds())}),
	}
	m.timeout = time.Duration(m.rawClient.timeout) * time.Millisecond
	return m
}

// live touches the session up to five times, each time before it can have expired.
func (m *mortal) live() {
	for range m.random.IntN(6) {
		time.Sleep(time.Until(m.touched) + time.Duration(m.random.Int64N(int64(m.timeout))))
		m.touched = time.Now()
		m.touch()
	}
	time.Sleep(time.Until(m.touched.Add(m.timeout / 2))) // it was opened a while ago
	// That something is answered proves nothing: credentials do not touch a session.
	if _, err := m.call(100, body{}.int(0).str("digest").str("user:secret")); err != nil {
		m.t.Error(err)
	}
	if _, err := m.call(102, body{}.str("token")); err != nil {
		m.t.Error(err)
	}
}

// touch sends something that proves its client alive, whatever becomes of it.
func (m *mortal) touch() {
	var err error
	switch m.random.IntN(7) {
	case 0:
		_, err = m.call(11, body{})
	case 1:
		_, err = m.call(3, body{}.str("/none").flag(false))
	case 2:
		_, err = m.call(5, body{}.str("/").str("").int(-1))
	case 3: // one that cannot be applied
		_, err = m.call(2, body{}.str("/none").int(7))
	case 4:
		err = m.comeBack()
	case 5:
		_, err = m.call(9, body{}.str("/"))
	case 6:
		_, err = m.call(107, body{})
	}
	if err != nil {
		m.t.Error(err)
	}
}

func (m *mortal) comeBack() error {
	nc, err := m.srv.Dial(m.t.Context(), "", "")
	if err != nil {
		return err
	}
	m.t.Cleanup(func() { nc.Close() })
	again, err := handshake(nc, connection{
		session: m.session, password: m.password, timeoutMs: int32(m.timeout.Milliseconds()),
	})
	if err == nil && again.session != m.session {
		err = fmt.Errorf("session 0x%x asked for, 0x%x given", m.session, again.session)
	}
	m.nc = nc
	return err
}

// TestRequestThatWaitsKeepsItsSession lets sessions expire while a request of one of them has arrived and waits for
// another to be served.
func TestRequestThatWaitsKeepsItsSession(t *testing.T) {
	for name, op := range map[string]int32{"ping": 11, "read": 3, "credentials before a ping": 100} {
		t.Run(name, func(t *testing.T) {
			srv := start(t, zkserver.WithoutListener(), zkserver.WithTick(time.Hour)) // no session expires by itself
			c, idle := dialed(t, srv, connection{}), dialed(t, srv, connection{})
			fields := map[int32]body{
				11:  {},
				3:   body{}.str("/").flag(false),
				100: body{}.int(0).str("digest").str("user:secret"),
			}[op]
			srv.ExpireWhileAwaited(c.session, func() {
				must.Get(c.send(op, fields))(t)
			})
			require.Zero(t, must.Get(c.receive())(t).err)
			idle.hungUp(t)
			require.Len(t, srv.Sessions(), 1)
			require.Equal(t, c.session, srv.Sessions()[0].ID)
		})
	}
	t.Run("connect request", func(t *testing.T) {
		srv := start(t, zkserver.WithoutListener(), zkserver.WithTick(time.Hour))
		c := dialed(t, srv, connection{})
		nc := must.Get(srv.Dial(t.Context(), "", ""))(t)
		defer nc.Close()
		again := make(chan *rawClient, 1)
		srv.ExpireWhileAwaited(c.session, func() {
			go func() {
				defer close(again)
				if c, err := handshake(nc, connection{session: c.session, password: c.password, timeoutMs: 10_000}); err == nil {
					again <- c
				}
			}()
		})
		got := <-again
		require.NotNil(t, got)
		require.Equal(t, c.session, got.session)
	})
}

// blockingHandler is a log whose writer blocks at the second message that a session is connected. The server holds its
// mutex meanwhile: this is a request that takes as long as the test wants.
type blockingHandler struct {
	slog.Handler

	seen    *atomic.Int32
	entered chan struct{}
	release chan struct{}
}

func (h blockingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h blockingHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "session connected" && h.seen.Add(1) == 2 {
		close(h.entered)
		<-h.release
	}
	return nil
}

// TestExpirySlowRequestExpiresNoSession has a request that takes longer than the timeout of a session. The session has as much
// time left after it as before: nothing that its client sent meanwhile could be read.
func TestExpirySlowRequestExpiresNoSession(t *testing.T) {
	t.Parallel()
	const (
		tick    = 250 * time.Millisecond
		timeout = 5 * time.Second
	)
	slow := blockingHandler{
		Handler: slog.DiscardHandler, seen: new(atomic.Int32), entered: make(chan struct{}), release: make(chan struct{}),
	}
	srv := start(t, zkserver.WithTick(tick), zkserver.WithLogger(slog.New(slow)))
	c := rawTo(t, srv, connection{timeoutMs: int32(timeout.Milliseconds())})
	nc := must.Get(dialTCP(srv.Addr()))(t)
	defer nc.Close()
	again := make(chan *rawClient, 1)
	go func() {
		defer close(again)
		c, err := handshake(nc, connection{session: c.session, password: c.password, timeoutMs: c.timeout})
		if err == nil {
			again <- c
		}
	}()
	<-slow.entered // the session has just been touched
	<-time.After(timeout + 3*tick)
	close(slow.release)
	got := <-again
	require.NotNil(t, got)
	<-time.After(3 * tick)
	got.must(t, 11, body{})
	for _, e := range srv.Log() {
		require.NotEqual(t, zkserver.SessionExpired, e.Kind, e.String())
	}
}
