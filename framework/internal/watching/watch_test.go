// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// TestWatchWhichEventsEndAWatch: one armed watch, one event.
func TestWatchWhichEventsEndAWatch(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		event zk.EventType
		ends  bool
	}{
		{Data, zk.EventNodeDataChanged, true},
		{Data, zk.EventNodeCreated, true},
		{Data, zk.EventNodeDeleted, true},
		{Data, zk.EventNodeChildrenChanged, false},
		{Children, zk.EventNodeChildrenChanged, true},
		{Children, zk.EventNodeDeleted, true},
		{Children, zk.EventNodeDataChanged, false},
	} {
		l := newLine(t)
		w, other := l.armed("/a", c.kind), l.armed("/b", c.kind)
		l.event(c.event, "/a")
		requireWaiting(t, other)
		if !c.ends {
			requireWaiting(t, w)
			continue
		}
		requireFired(t, w, Event{Type: c.event, Path: "own/a"})
		require.Equal(t, 1, l.r.Known())
		w.Cancel() // nothing is left to remove
		l.quiet()
	}
}

func TestWatchEventBeforeTheReplyIsNotForTheWatch(t *testing.T) {
	l := newLine(t)
	w, ask, done := l.begin(Setting{Key: Key{"/a", Data}})
	require.True(t, ask)
	l.event(zk.EventNodeDataChanged, "/a") // of another client's request that was answered before
	requireWaiting(t, w)
	require.Zero(t, l.r.Active())
	done(conduit.Reply{}, nil)
	require.Equal(t, 1, l.r.Active())
	l.event(zk.EventNodeDeleted, "/a")
	requireFired(t, w, Event{Type: zk.EventNodeDeleted})
}

func TestWatchFailedRequestLeavesNoWatch(t *testing.T) {
	for _, outcome := range []struct {
		reply conduit.Reply
		err   error
	}{{reply: conduit.Reply{Code: noNode}}, {err: errLost}} {
		l := newLine(t)
		w, _, done := l.begin(Setting{Key: Key{"/a", Data}})
		done(outcome.reply, outcome.err)
		require.False(t, w.IsSet())
		require.Zero(t, l.r.Known())
		l.quiet()
	}
}

func TestWatchOfAMissingZnodeWaitsForItsCreation(t *testing.T) {
	l := newLine(t)
	w, _, done := l.begin(Setting{Key: Key{"/a", Data}, OnAbsent: true})
	done(conduit.Reply{Code: noNode}, nil)
	require.True(t, w.IsSet())
	l.event(zk.EventNodeCreated, "/a")
	requireFired(t, w, Event{Type: zk.EventNodeCreated})
}

func TestWatchEndOfAConnectionEndsItsWatches(t *testing.T) {
	l := newLine(t)
	armed := l.armed("/a", Data)
	waiting, _, done := l.begin(Setting{Key: Key{"/a", Data}})
	l.lose()
	requireFired(t, armed, Event{Type: zk.EventNotWatching, Path: "own/a", Err: errLost})
	requireWaiting(t, waiting)
	done(conduit.Reply{}, errLost)
	requireWaiting(t, waiting) // its read has failed
	require.Zero(t, l.r.Known())
	l.connect()
	l.quiet() // one-shot watches are not set again
}

func TestWatchDeletionEndsContextsBeforeAnyWaiterLearnsOfIt(t *testing.T) {
	l := newLine(t)
	var order []string
	watches := []*Watch{l.armed("/a", Data), l.armed("/a", Data), l.armed("/a", Children)}
	for _, w := range watches {
		require.True(t, w.AddHook(func(e Event) {
			require.Equal(t, zk.EventNodeDeleted, e.Type)
			order = append(order, "hook")
		}))
		require.True(t, w.AddEnd(func(Event) {
			requireWaiting(t, watches...)
			order = append(order, "end")
		}))
	}
	l.event(zk.EventNodeDeleted, "/a")
	require.Equal(t, []string{"end", "end", "end", "hook", "hook", "hook"}, order)
	require.False(t, watches[0].AddHook(func(Event) {}))
	require.False(t, watches[0].AddEnd(func(Event) {}))
}

func TestWatchOnlyADeletionEndsContexts(t *testing.T) {
	l := newLine(t)
	changed, lost, cancelled := l.armed("/a", Data), l.armed("/b", Data), l.armed("/c", Data)
	for _, w := range []*Watch{changed, lost, cancelled} {
		w.AddEnd(func(Event) { t.Error("not deleted") })
	}
	cancelled.AddHook(func(Event) { t.Error("cancelled") })
	l.event(zk.EventNodeDataChanged, "/a")
	cancelled.Cancel()
	l.event(zk.EventNodeDeleted, "/c")
	l.lose()
	requireFired(t, lost, Event{Type: zk.EventNotWatching, Path: "own/b", Err: errLost})
}

func TestWatchHookMayCancelOtherWatches(t *testing.T) {
	l := newLine(t)
	w, other := l.armed("/a", Data), l.armed("/b", Data)
	w.AddHook(func(Event) { other.Cancel() })
	l.event(zk.EventNodeDeleted, "/a")
	l.answer(wire.OpRemoveWatches, removal("/b", Data), 0)
	require.Zero(t, l.r.Known())
}

func TestWatchThrottledRemovalIsRepeatedUnlessTheWatchIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		l.armed("/a", Data).Cancel()
		l.answer(wire.OpRemoveWatches, removal("/a", Data), throttled)
		rest(l.r)
		l.answer(wire.OpRemoveWatches, removal("/a", Data), throttled)
		wanted := l.armed("/a", Data)
		rest(l.r)
		l.quiet()
		wanted.Cancel()
		l.answer(wire.OpRemoveWatches, removal("/a", Data), 0)
		rest(l.r)
		l.quiet()
	})
}

func TestWatchEventsWithAPathThatIsNone(t *testing.T) {
	l := newLine(t)
	_, events := l.persistent("/", Recursive)
	for _, path := range []string{"", "a", "/", "//"} {
		l.event(zk.EventNodeCreated, path)
		l.event(zk.EventNodeChildrenChanged, path)
	}
	require.Contains(t, *events, Event{Type: zk.EventNodeCreated, Path: "/"})
}

// A hook finds its watch fired, also one that is added while the end is being reported. Otherwise its owner
// looks, finds the watch waiting, and is never told again.
func TestWatchHookFindsItsWatchFired(t *testing.T) {
	l := newLine(t)
	w := l.armed("/a", Data)
	hooked := false
	require.True(t, w.AddEnd(func(Event) {
		look := func(Event) {
			hooked = true
			requireFired(t, w, Event{Type: zk.EventNodeDeleted, Path: "own/a"})
		}
		if !w.AddHook(look) {
			look(w.Event())
		}
		require.False(t, hooked, "it is not reported yet")
	}))
	l.event(zk.EventNodeDeleted, "/a")
	require.True(t, hooked)
}
