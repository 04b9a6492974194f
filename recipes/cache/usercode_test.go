// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// panickyCodec panics once.
type panickyCodec struct {
	framework.GzipCompressionProvider
	panicked atomic.Bool
}

func (c *panickyCodec) Decompress(path string, compressed []byte) ([]byte, error) {
	if !c.panicked.Swap(true) {
		panic("the user's own fault")
	}
	return c.GzipCompressionProvider.Decompress(path, compressed)
}

// A panic of user code on a goroutine of the cache must not end the process. It costs the
// znode, until this changes, and no other.
func TestUserCodePanicOfACodecCostsTheZnode(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		codec := new(panickyCodec)
		client := zktest.Client(t, server, framework.WithCompressionProvider(codec))
		_, err := client.Create(zktest.Context(t), "/tree", []byte("a"), framework.Compressed())
		require.NoError(t, err)
		_, err = client.Create(zktest.Context(t), "/tree/other", []byte("b"), framework.Compressed())
		require.NoError(t, err)

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
	}{{"3.8.0", zkserver.OpAddWatch}, {"3.8.0", zkserver.OpGetData}, {old, zkserver.OpGetData}} {
		t.Run(fmt.Sprintf("%s/%s", lost.version, lost.op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var panicked atomic.Bool
				policy := retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) {
					if !panicked.Swap(true) {
						panic("the user's own fault")
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
