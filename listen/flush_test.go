// SPDX-License-Identifier: Apache-2.0

package listen_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/listen"
)

func TestFlush(t *testing.T) {
	t.Run("nothing to wait for", func(t *testing.T) {
		var set listen.Set[int]
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, set.Flush(ctx))
		set.Add(func(int) {})
		require.NoError(t, set.Flush(ctx))
	})

	t.Run("waits for the calls, not for later values", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var set listen.Set[int]
			slow := newBlocker()
			set.Add(slow.listen)
			set.Notify(0)
			set.Notify(1)
			flushed := make(chan error, 2)
			for range cap(flushed) {
				go func() { flushed <- set.Flush(t.Context()) }()
			}
			require.Equal(t, 0, <-slow.entered)
			synctest.Wait()
			set.Notify(2)
			slow.leave <- struct{}{}
			require.Equal(t, 1, <-slow.entered)
			synctest.Wait()
			require.Empty(t, flushed, "the call with 1 has not returned")
			slow.leave <- struct{}{}
			require.Equal(t, 2, <-slow.entered)
			synctest.Wait()
			require.Len(t, flushed, 2, "all but 2 has been delivered")
			require.NoError(t, <-flushed)
			require.NoError(t, <-flushed)
			close(slow.leave)
		})
	})

	t.Run("waits for what came before it, not before another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var set listen.Set[int]
			slow := newBlocker()
			set.Add(slow.listen)
			flush := func() <-chan error {
				flushed := make(chan error, 1)
				go func() { flushed <- set.Flush(t.Context()) }()
				synctest.Wait()
				return flushed
			}
			set.Notify(0)
			<-slow.entered
			first := flush()
			set.Notify(1)
			second := flush()
			slow.leave <- struct{}{}
			<-slow.entered
			synctest.Wait()
			require.Len(t, first, 1)
			require.Empty(t, second, "the call with 1 has not returned")
			slow.leave <- struct{}{}
			require.NoError(t, <-first)
			require.NoError(t, <-second)
		})
	})

	t.Run("ends with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var set listen.Set[int]
			slow := newBlocker()
			set.Add(slow.listen)
			set.Notify(0)
			<-slow.entered
			cause := errors.New("test: enough")
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
			defer cancel()
			start := time.Now()
			err := set.Flush(ctx)
			require.ErrorIs(t, err, cause)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.EqualError(t, err, "listen: flush: context deadline exceeded: test: enough")
			require.Equal(t, time.Minute, time.Since(start))
			close(slow.leave)
			require.NoError(t, set.Flush(t.Context()))
			require.Equal(t, count(1), slow.told)
		})
	})

	t.Run("of a listener removed meanwhile waits for its call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var set listen.Set[int]
			slow := newBlocker()
			registration := set.Add(slow.listen)
			set.Notify(0)
			set.Notify(1)
			<-slow.entered
			flushed := make(chan error, 1)
			go func() { flushed <- set.Flush(t.Context()) }()
			synctest.Wait()
			registration.Remove()
			synctest.Wait()
			require.Empty(t, flushed, "the call with 0 has not returned")
			slow.leave <- struct{}{}
			require.NoError(t, <-flushed)
			require.Equal(t, count(1), slow.told, "1 was discarded")
		})
	})
}
