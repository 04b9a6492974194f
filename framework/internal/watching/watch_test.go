// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/wire"
)

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

func TestWatchHookMayCancelOtherWatches(t *testing.T) {
	l := newLine(t)
	w, other := l.armed("/a", Data), l.armed("/b", Data)
	w.AddHook(func(Event) { other.Cancel() })
	l.event(zk.EventNodeDeleted, "/a")
	l.answer(wire.OpRemoveWatches, removal("/b", Data), 0)
	require.Zero(t, l.r.Known())
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
