package cache_test

import (
	"sync/atomic"
	"testing"
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

// A panic of user code on a goroutine of the cache must not end the process. The read is made
// again after a pause.
func TestAPanicOfACodecDelaysTheCache(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		codec := new(panickyCodec)
		client := zktest.Client(t, server, framework.WithCompressionProvider(codec))
		_, err := client.Create(withLimit(t), "/tree", []byte("a"), framework.Compressed())
		require.NoError(t, err)

		c := started(t, client, "/tree", cache.CompressedData())

		require.True(t, codec.panicked.Load())
		require.Equal(t, map[string]string{"/tree": "a"}, picture(c))
		require.NoError(t, c.Close())
	})
}

func TestAPanicOfARetryPolicyDelaysTheCache(t *testing.T) {
	for _, op := range []zkserver.OpCode{zkserver.OpAddWatch, zkserver.OpGetData} {
		t.Run(op.String(), func(t *testing.T) {
			inBubbles(t, func(t *testing.T, server *zkserver.Server) {
				var panicked atomic.Bool
				policy := retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) {
					if !panicked.Swap(true) {
						panic("the user's own fault")
					}
					return time.Second, true
				})
				client := zktest.Client(t, server, framework.WithRetryPolicy(policy))
				create(t, client, "/tree", "a")
				server.Intercept(zkserver.Nth(1, op, zkserver.LoseRequest))

				c := started(t, client, "/tree")

				require.Equal(t, map[string]string{"/tree": "a"}, picture(c))
				require.NoError(t, c.Close())
			})
		})
	}
}
