// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zktest"
)

func TestSharedRunsWhileItIsOpen(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		create(t, client, "/tree/a", "red")
		before := server.Counts(t)
		shared, err := cache.NewShared(client, "/tree", cache.WithStorage(cache.NewStandardStorage()), cache.WithIndex("words", words))
		require.NoError(t, err)
		for range 2 {
			first, giveBackFirst, err := shared.Open()
			require.NoError(t, err)
			fresh(t, first)
			watched := server.Counts(t)
			second, giveBackSecond, err := shared.Open()
			require.NoError(t, err)
			require.Same(t, first, second)
			require.Equal(t, watched, server.Counts(t), "one watch for both")
			require.Equal(t, []string{"/tree/a"}, byWord(t, second, "red"))

			giveBackFirst()
			giveBackFirst()
			require.NoError(t, second.Err(), "the other component has it open")
			fresh(t, second)
			giveBackSecond()
			require.ErrorIs(t, second.Err(), cache.ErrClosed)
			server.AwaitCounts(t, before, limit)
		}
	})
}

func TestSharedComesAndGoesConcurrently(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	create(t, client, "/tree/a", "red")
	shared, err := cache.NewShared(client, "/tree", cache.WithStorage(cache.NewStandardStorage()))
	require.NoError(t, err)
	var components sync.WaitGroup
	for range 8 {
		components.Go(func() {
			for range 20 {
				c, giveBack, err := shared.Open()
				if err == nil {
					err = c.Fresh(t.Context())
				}
				if _, found := c.Get("/tree/a"); err != nil || !found {
					t.Errorf("err %v, found %t", err, found)
				}
				giveBack()
			}
		})
	}
	components.Wait()
}

func TestSharedKeepsItsOptions(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	options := append(make([]cache.Option, 0, 2), cache.WithMaxDepth(1))
	shared, err := cache.NewShared(client, "/tree", append(options, cache.WithIndex("words", words))...)
	require.NoError(t, err)
	_ = append(options, cache.WithMaxDepth(2)) // of another cache, in the same array
	c, giveBack, err := shared.Open()
	require.NoError(t, err)
	defer giveBack()
	_, err = c.ByIndex("words", "red")
	require.NoError(t, err)
}

func TestNewSharedBadInput(t *testing.T) {
	_, err := cache.NewShared(nil, "/tree")
	require.ErrorIs(t, err, framework.ErrInvalidOption)
	_, err = cache.NewShared(zktest.Client(t, zktest.NewServer(t)), "tree")
	require.ErrorIs(t, err, framework.ErrInvalidPath)
}
