// SPDX-License-Identifier: Apache-2.0

package listen_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/listen"
)

func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := listen.New[int](listen.Latest())
		slow := newBlocker()
		set.Add(slow.listen)
		var quick recorder
		set.Add(quick.listen)
		set.Notify(0)
		require.Equal(t, 0, <-slow.entered)
		synctest.Wait()
		flushed := make(chan error, 1)
		for v := 1; v < 100; v++ {
			set.Notify(v)
			synctest.Wait()
			if v == 50 {
				go func() { flushed <- set.Flush(t.Context()) }()
				synctest.Wait()
			}
		}
		require.Len(t, quick.told, 100, "it is never behind")
		slow.leave <- struct{}{}
		require.Equal(t, 99, <-slow.entered, "what was between is not told")
		synctest.Wait()
		require.Empty(t, flushed, "the value that has replaced 50 is not delivered")
		set.Notify(100)
		slow.leave <- struct{}{}
		require.Equal(t, 100, <-slow.entered)
		synctest.Wait()
		require.Len(t, flushed, 1, "it does not wait for later values")
		require.NoError(t, <-flushed)
		slow.leave <- struct{}{}
		synctest.Wait()
		require.Equal(t, []int{0, 99, 100}, slow.told)
	})
}
