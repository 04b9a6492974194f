package locks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

// How long to wait for what happens on another goroutine, and the pause between two looks.
const soon, often = 30 * time.Second, 5 * time.Millisecond

// TestARosterEndsNothingAfterItsContext: the hold is lost, even before the roster knows.
func TestARosterEndsNothingAfterItsContext(t *testing.T) {
	reason := errors.New("reason")
	ctx, cancel := context.WithCancelCause(context.Background())
	// Not made by rosterOf, so that nothing abandons the hold.
	h := &hold{roster: &roster{parent: ctx, holds: make(map[rostered]struct{})}}
	h.roster.add(h)
	cancel(reason)
	require.False(t, h.roster.end(h, ErrReleased))
	require.Equal(t, reason, h.cause())
}

// TestARosterGoesWithItsContext, and there is one for each context.
func TestARosterGoesWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r := rosterOf(ctx)
	require.Same(t, r, rosterOf(ctx))
	h := &hold{roster: r}
	r.add(h)
	require.True(t, r.end(h, ErrReleased))
	require.False(t, r.end(h, ErrReleased), "again")
	require.Equal(t, ErrReleased, h.cause())
	cancel()
	require.Eventually(t, func() bool {
		rosters.Lock()
		defer rosters.Unlock()
		return rosters.of[ctx] == nil
	}, soon, often)
	require.Equal(t, ErrReleased, h.cause(), "it has been released before")
}

// TestAHoldThatBeginsAfterTheEndIsAbandoned: the context of the session may end between the
// grant and the hold.
func TestAHoldThatBeginsAfterTheEndIsAbandoned(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	mutex, err := NewInterProcessMutex(client, "/lock")
	require.NoError(t, err)
	lease, err := mutex.Acquire(t.Context())
	require.NoError(t, err)
	reason := errors.New("reason")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	held := lease.hold
	late := &hold{
		l: held.l, session: held.session, roster: &roster{parent: ctx, over: true}, letGo: func() {}, node: held.node, self: held.self,
	}
	late.begin()
	require.Equal(t, reason, late.cause())
	require.Eventually(t, func() bool {
		stat, err := client.Exists(t.Context(), lease.Path())
		return err == nil && stat == nil
	}, soon, often, "its node is deleted")
	require.Error(t, lease.Release(t.Context()), "it has no node any more")
}
