// SPDX-License-Identifier: Apache-2.0

package hardship

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
)

// intruder is user code that misbehaves from a moment on.
type intruder struct {
	client  atomic.Pointer[framework.Framework]
	does    func(*intruder)
	release chan struct{}
	active  atomic.Bool
	called  atomic.Int64
}

// behaviour is what user code does.
type behaviour struct {
	name   string
	does   func(*intruder)
	closes bool
}

var behaviours = []behaviour{
	{"blocks", func(i *intruder) { <-i.release }, false},
	{"panics", func(*intruder) { panic("the user's own fault") }, false},
	{"calls back", (*intruder).callBack, false},
	{"closes the client", func(i *intruder) { _ = i.client.Load().Close() }, true},
}

// callBack asks the client for all that it knows without a server, and a server for some more.
func (i *intruder) callBack() {
	f := i.client.Load()
	_, _, _ = f.State(), f.Session(), f.Health()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, _ = f.Exists(ctx, "/") // there may be no connection
}

// act misbehaves, once it is time, and a few times only: a dialer that always panics never connects.
func (i *intruder) act() {
	const times = 5
	if i.active.Load() && i.client.Load() != nil && i.called.Add(1) <= times {
		i.does(i)
	}
}

// place is where user code runs.
type place struct {
	name  string
	opts  func(i *intruder, dial framework.Dialer) []framework.Option
	start func(*intruder, *framework.Framework)

	// inCall says that it runs within the call, which it may hold up therefore, and end with its panic.
	inCall bool

	// connects says that the client cannot connect again before it has returned.
	connects bool
}

var places = []place{
	{name: "logger", opts: func(i *intruder, _ framework.Dialer) []framework.Option {
		return []framework.Option{framework.WithLogger(slog.New(logHandler{i}))}
	}},
	{name: "listener", start: func(i *intruder, f *framework.Framework) {
		f.OnConnectionState(func(framework.ConnectionState) { i.act() })
	}},
	{name: "retry policy", inCall: true, opts: func(i *intruder, _ framework.Dialer) []framework.Option {
		return []framework.Option{framework.WithRetryPolicy(retry.PolicyFunc(func(attempt int, _ time.Duration, _ error) (time.Duration, bool) {
			i.act()
			return 10 * time.Millisecond, attempt < 50
		}))}
	}},
	{name: "ACL provider", inCall: true, opts: func(i *intruder, _ framework.Dialer) []framework.Option {
		return []framework.Option{framework.WithACLProvider(aclProvider{i})}
	}},
	{name: "ensemble provider", opts: func(i *intruder, _ framework.Dialer) []framework.Option {
		return []framework.Option{framework.WithEnsembleProvider(ensembleProvider{i})}
	}},
	{name: "dialer", connects: true, opts: func(i *intruder, dial framework.Dialer) []framework.Option {
		return []framework.Option{framework.WithDialer(i.dialer(dial))}
	}},
}

// dialer dials for the client, after it has misbehaved.
func (i *intruder) dialer(dial framework.Dialer) framework.Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		i.act()
		return dial(ctx, network, address)
	}
}

type logHandler struct{ *intruder }

func (logHandler) Enabled(context.Context, slog.Level) bool    { return true }
func (h logHandler) Handle(context.Context, slog.Record) error { h.act(); return nil }
func (h logHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h logHandler) WithGroup(string) slog.Handler             { return h }

type aclProvider struct{ *intruder }

func (p aclProvider) DefaultACL() []framework.ACL { p.act(); return nil }

func (p aclProvider) ACLForPath(string) []framework.ACL { p.act(); return nil }

type ensembleProvider struct{ *intruder }

func (p ensembleProvider) ConnectionString() string { p.act(); return servers }

// recovering is a call whose panic is the caller's own.
func recovering(made func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		defer func() { _ = recover() }()
		return made(ctx)
	}
}

// userCode has user code misbehave while the call is made and the connection is reset:
// it costs what it is in itself, and nothing else. The call returns, no later than user
// code that runs within it; the client can be closed, and then nothing is left.
func userCode(t *testing.T, call Call) {
	const atOnce = 8 // of so many variants one is tried, unless the run is long
	for p, place := range places {
		for b, behaviour := range behaviours {
			if !mine(call, p*len(behaviours)+p+b, atOnce) { // the calls together have all places with all behaviours
				continue
			}
			i := &intruder{does: behaviour.does}
			opts := func(dial framework.Dialer) []framework.Option {
				if place.opts == nil {
					return nil
				}
				return place.opts(i, dial)
			}
			onStage(t, call, opts, func(s *stage) {
				i.release = make(chan struct{})
				i.client.Store(s.Ours)
				if place.start != nil {
					place.start(i, s.Ours)
				}
				s.preparef("a %s that %s", place.name, behaviour.name)
				s.intrude(i, place, behaviour)
			})
		}
	}
}

// intrude makes the call while the intruder misbehaves.
func (s *stage) intrude(i *intruder, at place, by behaviour) {
	const (
		timeout = 20 * time.Second
		blocked = 3 * time.Second // longer than what a client may need to reconnect
		late    = time.Second
	)
	release := sync.OnceFunc(func() { close(i.release) })
	s.T.Cleanup(release)
	if at.inCall {
		s.made = recovering(s.made)
	}
	i.active.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	result := s.begin(ctx)
	sleep(whileItWaits / 2)
	s.Link.Cut()
	sleep(blocked)
	s.Later()
	if at.inCall || at.connects {
		release()
	}
	select {
	case err := <-result:
		if !by.closes && !at.inCall {
			s.allowed(err, framework.OutcomeUnknown, isPending)
		}
	case <-time.After(timeout + late):
		s.failf("the call has not returned")
	}
	i.active.Store(false)
	if !by.closes && !at.inCall { // what is blocked still is
		reading, cancel := context.WithTimeout(context.Background(), settling)
		_, err := s.Ours.Exists(reading, "/")
		cancel()
		require.NoError(s.T, err, s.Name)
	}
	began := time.Now()
	_ = s.Ours.Close() // its server may not have answered
	require.LessOrEqual(s.T, time.Since(began), settling, "%s: Close", s.Name)
	release()
	sleep(settling)
	s.Rival()
	s.clean(settling)
}
