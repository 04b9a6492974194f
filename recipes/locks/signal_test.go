package locks

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestASignalEndsItsContext whether the context is made before the end or after it.
func TestASignalEndsItsContext(t *testing.T) {
	for _, early := range []bool{true, false} {
		var s signal
		var ctx context.Context
		if early {
			ctx = s.context()
			require.NoError(t, ctx.Err())
		}
		require.False(t, s.hasEnded())
		s.end(nil)
		require.True(t, s.hasEnded())
		if !early {
			ctx = s.context()
		}
		require.ErrorIs(t, ctx.Err(), context.Canceled, "made before the end: %t", early)
		require.Same(t, ctx, s.context(), "there is one")
		s.end(nil) // again
		require.True(t, s.hasEnded())
	}
}

// TestASignalMakesNoContextUnasked: a hold that no caller waits on does not pay for one.
func TestASignalMakesNoContextUnasked(t *testing.T) {
	var s signal
	s.end(nil)
	require.True(t, s.hasEnded())
	require.Same(t, endedByNothing, s.made.Load())
}

// TestASignalHasItsCause: the first one, whether its context is made before the end, after it,
// or not at all. A context ends with its parent, too.
func TestASignalHasItsCause(t *testing.T) {
	reason, other := errors.New("reason"), errors.New("other")
	for _, cause := range []error{reason, ErrReleased} {
		for _, early := range []bool{true, false} {
			var s signal
			if early {
				s.context()
			}
			require.NoError(t, s.cause())
			s.end(cause)
			s.end(other)
			require.Equal(t, cause, s.cause())
			require.Equal(t, cause, context.Cause(s.context()))
		}
	}
	var s signal
	parent, cancel := context.WithCancelCause(context.Background())
	child := s.within(parent)
	cancel(reason)
	require.Equal(t, reason, context.Cause(child))
	require.Equal(t, reason, s.cause())
}

// TestASignalForManyAtOnce: contexts that are asked for while the signal ends are all the
// same one, and end. A function that waits for the context may use the signal.
func TestASignalForManyAtOnce(t *testing.T) {
	const rounds, users = 200, 4
	for range rounds {
		var s signal
		var all sync.WaitGroup
		contexts := make(chan context.Context, users)
		start, called := make(chan struct{}), make(chan bool, users)
		for range users {
			all.Go(func() {
				<-start
				ctx := s.context()
				context.AfterFunc(ctx, func() { called <- s.hasEnded() })
				contexts <- ctx
			})
			all.Go(func() {
				<-start
				s.end(nil)
			})
		}
		close(start)
		all.Wait()
		for range users {
			ctx := <-contexts
			require.Same(t, s.context(), ctx)
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.True(t, <-called)
		}
	}
}
