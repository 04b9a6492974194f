// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

var (
	errLost    = errors.New("lost")
	errClosed  = errors.New("closed")
	errNotSent = errors.New("not sent")
)

type refusal struct {
	op   int32
	code int32
}

func (r refusal) Error() string { return fmt.Sprintf("%d: %d", r.op, r.code) }

func mayPass(err error) bool {
	refused, ok := errors.AsType[refusal](err)
	return ok && refused.code == throttled
}

// line is a registry with a connection whose server the test plays.
type line struct {
	t    *testing.T
	r    *Registry
	cut  bool            // nothing can be sent
	sent []*conduit.Call // by the registry itself, not answered yet
}

func newLine(t *testing.T) *line {
	t.Helper()
	l := &line{t: t}
	l.r = New(Config{
		Send: l.send, MaxRequest: 1 << 20, Lost: errLost,
		Refusal: func(call *conduit.Call, code int32) error { return refusal{call.Op, code} },
		MayPass: mayPass,
	})
	l.r.OnConnected()
	return l
}

// send refuses as a conduit does: it tells OnDone before it returns.
func (l *line) send(calls ...*conduit.Call) error {
	if l.cut {
		for _, c := range calls {
			c.OnDone(conduit.Reply{}, errNotSent)
		}
		return errNotSent
	}
	l.sent = append(l.sent, calls...)
	return nil
}

// take returns the oldest request of the registry, which must be this one.
func (l *line) take(op int32, body []byte) *conduit.Call {
	l.t.Helper()
	require.NotEmpty(l.t, l.sent)
	c := l.sent[0]
	l.sent = l.sent[1:]
	require.Equal(l.t, op, c.Op)
	require.Equal(l.t, body, c.Body)
	return c
}

// answer answers the oldest request of the registry, which must be this one.
func (l *line) answer(op int32, body []byte, code int32) {
	l.t.Helper()
	l.take(op, body).OnDone(conduit.Reply{Code: code}, nil)
}

// rest lets a registry repeat what the server has throttled.
func rest(r *Registry) {
	r.Known() // after all that the test has done: its lock orders that before the timers
	time.Sleep(askAgain)
	synctest.Wait()
}

func (l *line) quiet() {
	l.t.Helper()
	require.Empty(l.t, l.sent)
}

// lose ends the connection as a conduit does: the end first, then the requests.
func (l *line) lose() {
	l.cut = true
	l.r.OnDisconnected()
	for _, c := range l.sent {
		c.OnDone(conduit.Reply{}, errLost)
	}
	l.sent = nil
}

func (l *line) connect() {
	l.cut = false
	l.r.OnConnected()
}

func (l *line) event(kind zk.EventType, path string) {
	l.r.OnNotified(conduit.Notification{Type: kind, Path: path})
}

// begin begins a one-shot watch.
func (l *line) begin(s Setting) (w *Watch, ask bool, done func(conduit.Reply, error)) {
	w = new(Watch)
	ask, done = l.r.Begin(w, s)
	return w, ask, done
}

// armed returns a one-shot watch whose request has succeeded.
func (l *line) armed(full string, kind Kind) *Watch {
	l.t.Helper()
	w, ask, done := l.begin(Setting{Key: Key{full, kind}, Path: "own" + full})
	require.True(l.t, ask)
	done(conduit.Reply{}, nil)
	require.True(l.t, w.IsSet())
	return w
}

// persistent returns a persistent watch whose request has succeeded, and its events.
func (l *line) persistent(full string, mode Mode) (*Persistent, *[]Event) {
	l.t.Helper()
	events := new([]Event)
	w := l.r.NewPersistent(full, mode, func(e Event) { *events = append(*events, e) })
	require.False(l.t, l.r.Join(w))
	l.r.BeginPersistent(w)(conduit.Reply{}, nil)
	require.True(l.t, w.IsArmed())
	return w, events
}

func requireFired(t *testing.T, w *Watch, want Event) {
	t.Helper()
	select {
	case <-w.Fired():
		require.Equal(t, want, w.Event())
	default:
		t.Fatal("the watch has not ended")
	}
}

func requireWaiting(t *testing.T, watches ...*Watch) {
	t.Helper()
	for _, w := range watches {
		select {
		case <-w.Fired():
			t.Fatalf("the watch has ended: %v", w.Event())
		default:
		}
	}
}

func removal(full string, kind Kind) []byte { return removeWatchesBody(Key{full, kind}) }

func again(plain, recursive []string) []byte {
	return setWatches2Body(0, [modes][]string{plain, recursive})
}

const (
	noNode        = wire.CodeNoNode
	noAuth        = wire.CodeNoAuth
	unimplemented = wire.CodeUnimplemented
	throttled     = wire.CodeThrottled
)
