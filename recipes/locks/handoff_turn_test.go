// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestHandoffTurnThatComesWithTheEndOfItsTaker goes to the next goroutine: otherwise none of this
// process would get the lock again.
func TestHandoffTurnThatComesWithTheEndOfItsTaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &handoff{most: 2}
		first, err := f.join(true)
		require.NoError(t, err)
		require.Nil(t, first, "it is its turn at once")
		taker, err := f.join(true)
		require.NoError(t, err)
		next, err := f.join(true)
		require.NoError(t, err)

		// The turn is the taker's, who has not received it.
		f.mu.Lock()
		f.waiting = f.waiting[1:]
		f.mu.Unlock()
		ctx, end := context.WithCancel(context.Background())
		end()
		result := make(chan error, 1)
		go func() {
			_, err := f.await(ctx, taker, nil)
			result <- err
		}()
		synctest.Wait()
		taker <- nil
		require.ErrorIs(t, <-result, context.Canceled)
		synctest.Wait()
		require.Len(t, next, 1, "the turn")
		f.pass() // as the one that got it
		require.False(t, f.busy)
	})
}
