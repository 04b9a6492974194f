// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// TestPersistentWatchWhoseServerMayHaveBeenReplacedEnds: the read under way replaces the persistent
// watch, its one-shot watch fires, and a read that counts on the persistent one is left with
// none until it is set again.
func TestPersistentWatchWhoseServerMayHaveBeenReplacedEnds(t *testing.T) {
	l := newLine(t)
	first, ask, firstDone := l.begin(Setting{Key: Key{"/a", Data}})
	require.True(t, ask)
	l.persistent("/a", Plain)
	second, ask, secondDone := l.begin(Setting{Key: Key{"/a", Data}})
	require.False(t, ask)
	children, ask, childrenDone := l.begin(Setting{Key: Key{"/a", Children}})
	require.False(t, ask)
	firstDone(conduit.Reply{}, nil)
	l.event(zk.EventNodeDataChanged, "/a")
	requireFired(t, first, Event{Type: zk.EventNodeDataChanged})
	secondDone(conduit.Reply{}, nil)
	requireFired(t, second, Event{Type: zk.EventNotWatching, Err: errLost})
	childrenDone(conduit.Reply{}, nil)
	requireWaiting(t, children) // in the other table of the server
}

// TestPersistentRecursiveWatchDoesNotJoinOneThatIsAboutToBePlain: the request under way is for the
// users that were there when it was sent.
func TestPersistentRecursiveWatchDoesNotJoinOneThatIsAboutToBePlain(t *testing.T) {
	l := newLine(t)
	_, _, done := l.begin(Setting{Key: Key{"/a", Data}})
	recursive, _ := l.persistent("/a", Recursive)
	plain := l.r.NewPersistent("/a", Plain, func(Event) {})
	require.True(t, l.r.Join(plain))
	recursive.Cancel()
	done(conduit.Reply{}, nil)
	next := l.r.NewPersistent("/a", Recursive, func(Event) {})
	require.False(t, l.r.Join(next))
	l.answer(wire.OpAddWatch, AddWatchBody("/a", Plain), 0)
	require.True(t, plain.IsArmed())
}

// TestPersistentWatchesAreSetAgainInRequestsThatAreSent: they keep to the maximum for requests of callers.
func TestPersistentWatchesAreSetAgainInRequestsThatAreSent(t *testing.T) {
	l := newLine(t)
	const longest = 1024
	l.r.cfg.MaxRequest = longest
	for _, length := range []int{longest - 9, longest - 40, 300, 290, 280, 270, 1} { // the first leaves room for an addWatch
		l.persistent("/"+strings.Repeat("x", length), Plain)
	}
	l.lose()
	l.connect()
	for len(l.sent) > 0 {
		c := l.sent[0]
		l.sent = l.sent[1:]
		require.LessOrEqual(t, len(c.Body), longest)
		c.OnDone(conduit.Reply{}, nil)
	}
	require.Equal(t, 7, l.r.Active())
}

func TestPersistentServerThatRefusesOneWatchIsAskedForEach(t *testing.T) {
	l := newLine(t)
	bad, _ := l.persistent("/bad", Plain)
	good, events := l.persistent("/good", Recursive)
	l.lose()
	l.connect()
	l.answer(wire.OpSetWatches2, again([]string{"/bad"}, []string{"/good"}), noAuth)
	l.answer(wire.OpAddWatch, AddWatchBody("/bad", Plain), noAuth)
	l.answer(wire.OpAddWatch, AddWatchBody("/good", Recursive), 0)
	<-bad.Done()
	require.Equal(t, refusal{wire.OpAddWatch, noAuth}, bad.Err())
	require.Equal(t, []Event{{Type: Resync, Path: "/good"}}, *events)
	require.NoError(t, good.Err())
	require.Equal(t, 1, l.r.Known())
}

// TestPersistentRepairThatIsRefused: a read that was under way has replaced the persistent watch, and
// the server does not set it again. No watch counts on it from then on.
func TestPersistentRepairThatIsRefused(t *testing.T) {
	for name, code := range map[string]int32{"for good": noAuth, "for now": throttled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t)
				_, ask, done := l.begin(Setting{Key: Key{"/a", Data}})
				require.True(t, ask)
				persistent, events := l.persistent("/a", Recursive)
				served, ask, servedDone := l.begin(Setting{Key: Key{"/a", Children}})
				require.False(t, ask)
				servedDone(conduit.Reply{}, nil)
				done(conduit.Reply{}, nil)
				requireWaiting(t, served)
				l.answer(wire.OpAddWatch, AddWatchBody("/a", Recursive), code)
				requireFired(t, served, Event{Type: zk.EventNotWatching, Err: errLost})
				if code == noAuth {
					<-persistent.Done()
					require.Equal(t, refusal{wire.OpAddWatch, noAuth}, persistent.Err())
					l.answer(wire.OpRemoveWatches, removal("/a", anyKind), 0)
				}
				w, ask, done := l.begin(Setting{Key: Key{"/a", Data}})
				require.True(t, ask, "no persistent watch serves it")
				done(conduit.Reply{}, nil)
				l.event(zk.EventNodeDataChanged, "/a")
				requireFired(t, w, Event{Type: zk.EventNodeDataChanged})
				rest(l.r)
				if code == throttled {
					require.Empty(t, *events)
					l.answer(wire.OpSetWatches2, again(nil, []string{"/a"}), 0)
					require.Equal(t, []Event{{Type: Resync, Path: "/a"}}, *events)
					require.True(t, persistent.IsArmed())
					persistent.Cancel()
					l.answer(wire.OpRemoveWatches, removal("/a", anyKind), 0)
				}
				l.quiet()
				require.Zero(t, l.r.Known())
			})
		})
	}
}

// TestPersistentThrottledServerIsAskedAgain, for all watches that it has refused, after one pause.
func TestPersistentThrottledServerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		first, events := l.persistent("/a", Plain)
		second, _ := l.persistent("/b", Recursive)
		pause := func() {
			l.quiet()
			rest(l.r)
		}
		both := again([]string{"/a"}, []string{"/b"})
		l.lose()
		l.connect()
		l.answer(wire.OpSetWatches2, both, throttled)
		pause()
		l.answer(wire.OpSetWatches2, both, noAuth)
		l.answer(wire.OpAddWatch, AddWatchBody("/a", Plain), throttled)
		l.answer(wire.OpAddWatch, AddWatchBody("/b", Recursive), throttled)
		pause()
		l.answer(wire.OpSetWatches2, both, throttled)
		second.Cancel()
		pause()
		l.answer(wire.OpSetWatches2, again([]string{"/a"}, nil), throttled)
		l.lose() // and the pause with it
		l.connect()
		l.answer(wire.OpSetWatches2, again([]string{"/a"}, nil), 0)
		pause()
		l.quiet()
		require.NoError(t, first.Err())
		require.Equal(t, []Event{{Type: Resync, Path: "/a"}}, *events)
		require.Equal(t, 1, l.r.Known())
	})
}

func TestCloseEndsPersistentWatches(t *testing.T) {
	l := newLine(t)
	w, _ := l.persistent("/a", Plain)
	l.r.Close(errClosed)
	<-w.Done()
	require.ErrorIs(t, w.Err(), errClosed)
	w.Cancel()
	require.ErrorIs(t, w.Err(), errClosed)
	require.False(t, l.r.Join(l.r.NewPersistent("/a", Plain, func(Event) {})))

	late := l.r.NewPersistent("/b", Plain, func(Event) {})
	l.r.BeginPersistent(late)(conduit.Reply{}, nil)
	require.ErrorIs(t, late.Err(), errClosed)
	<-late.Done()
	l.r.Close(errLost)
	last := l.r.NewPersistent("/c", Plain, func(Event) {})
	l.r.BeginPersistent(last)(conduit.Reply{}, nil)
	require.ErrorIs(t, last.Err(), errClosed, "the first reason counts")
}
