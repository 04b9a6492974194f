// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// misbehaving is what user code may do that must cost a call, and nothing else.
var misbehaving = map[string]func(){
	"panic":  func() { panic("the user's own fault") },
	"Goexit": runtime.Goexit,
}

// eachMisbehaving runs the test in bubbles with each kind of misbehaviour.
func eachMisbehaving(t *testing.T, test func(t *testing.T, server *zkserver.Server, misbehave func())) {
	t.Helper()
	for name, misbehave := range misbehaving {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, server *zkserver.Server) { test(t, server, misbehave) })
		})
	}
}

// panickyCodec misbehaves once.
type panickyCodec struct {
	framework.GzipCompressionProvider
	misbehave func()
	panicked  atomic.Bool
}

func (c *panickyCodec) Decompress(path string, compressed []byte) ([]byte, error) {
	if !c.panicked.Swap(true) {
		c.misbehave()
	}
	return c.GzipCompressionProvider.Decompress(path, compressed)
}

// A panic of user code on a goroutine of the cache must not end the process. It costs the
// znode, until this changes, and no other.
func TestUserCodePanicOfACodecCostsTheZnode(t *testing.T) {
	eachMisbehaving(t, func(t *testing.T, server *zkserver.Server, misbehave func()) {
		codec := &panickyCodec{misbehave: misbehave}
		client := zktest.Client(t, server, framework.WithCompressionProvider(codec))
		must.Get(client.Create(zktest.Context(t), "/tree", []byte("a"), framework.Compressed()))(t)
		must.Get(client.Create(zktest.Context(t), "/tree/other", []byte("b"), framework.Compressed()))(t)

		c := started(t, client, "/tree", cache.CompressedData())

		require.True(t, codec.panicked.Load())
		require.Equal(t, map[string]string{"/tree/other": "b"}, picture(c))
		require.NoError(t, client.Set(zktest.Context(t), "/tree", []byte("c"), framework.Compressed()))
		require.NoError(t, c.Fresh(zktest.Context(t)))
		require.Equal(t, map[string]string{"/tree": "c", "/tree/other": "b"}, picture(c))
		require.NoError(t, c.Close())
	})
}

func TestUserCodePanicOfARetryPolicyDelaysTheCache(t *testing.T) {
	for _, lost := range []struct {
		version string
		op      zkserver.OpCode
		kind    string
	}{
		{"3.8.0", zkserver.OpAddWatch, "panic"},
		{"3.8.0", zkserver.OpAddWatch, "Goexit"},
		{"3.8.0", zkserver.OpGetData, "panic"},
		{"3.8.0", zkserver.OpGetData, "Goexit"},
		{old, zkserver.OpGetData, "panic"},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", lost.version, lost.op, lost.kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var panicked atomic.Bool
				policy := retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) {
					if !panicked.Swap(true) {
						misbehaving[lost.kind]()
					}
					return time.Second, true
				})
				server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(lost.version))
				client := zktest.Client(t, server, framework.WithRetryPolicy(policy))
				create(t, client, "/tree", "a")
				server.Intercept(zkserver.Nth(1, lost.op, zkserver.LoseRequest))

				c := newCache(t, client, "/tree")
				require.NoError(t, c.Start())
				// Only the cache may ask the policy, so the test makes no request beside it.
				time.Sleep(time.Minute)

				require.True(t, panicked.Load())
				require.Equal(t, map[string]string{"/tree": "a"}, picture(c))
				require.NoError(t, c.Close())
			})
		})
	}
}

// listening is a storage that adds a listener while it is read.
type listening struct {
	cache.CuratorCacheStorage
	listen func()
}

func (l listening) Stream() iter.Seq[*cache.ChildData] {
	l.listen()
	return l.CuratorCacheStorage.Stream()
}

func TestUserCodeStorageMayAddAListener(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		storage := &listening{CuratorCacheStorage: cache.NewStandardStorage(), listen: func() {}}
		client := zktest.Client(t, server)
		create(t, client, "/tree", "")
		c := started(t, client, "/tree", cache.WithStorage(storage))
		heard := 0
		storage.listen = func() { c.Listen(func(cache.Event) { heard++ }) }
		for range c.Stream() { // the storage adds a listener
		}
		set(t, client, "/tree", "b")
		synctest.Wait()
		require.Equal(t, 1, heard)
		require.NoError(t, c.Close())
	})
}
