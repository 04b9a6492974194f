// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

func TestContainersAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, connect := piped(t)
		c := connect(connection{timeoutMs: 10_000})
		exists := func(path string) bool { return c.code(t, 3, body{}.str(path).flag(false)) == 0 }
		wait := func(d time.Duration) {
			for range int(d / (5 * time.Second)) {
				time.Sleep(5 * time.Second)
				c.must(t, 11, body{})
			}
		}
		c.must(t, 19, createBody("/used", "", 4))
		c.must(t, 19, createBody("/unused", "", 4))
		c.must(t, 19, createBody("/full", "", 4))
		c.must(t, 14, multiOf(1, createBody("/inmulti", "", 4)))
		c.must(t, 1, createBody("/create1", "", 4)) // a plain node: outside a multi the opcode decides
		for _, p := range []string{"/used", "/inmulti", "/create1"} {
			c.must(t, 1, createBody(p+"/x", "", 0))
			c.must(t, 2, body{}.str(p+"/x").int(-1))
		}
		c.must(t, 1, createBody("/full/x", "", 0))
		c.must(t, 4, body{}.str("/used").flag(true))
		c.must(t, 8, body{}.str("/").flag(true))

		wait(55 * time.Second)
		require.True(t, exists("/used"), "before the first sweep")
		wait(10 * time.Second)
		require.Len(t, srv.Sessions(), 1)
		require.False(t, exists("/used"))
		require.False(t, exists("/inmulti"))
		require.True(t, exists("/unused"), "never had a child")
		require.True(t, exists("/full"))
		require.True(t, exists("/create1"))

		c.must(t, 2, body{}.str("/full/x").int(-1))
		wait(60 * time.Second)
		require.False(t, exists("/full"))
	})
}

func TestContainerSweepTellsWatches(t *testing.T) {
	srv := start(t, zkserver.WithContainerCheckInterval(time.Millisecond))
	c := rawTo(t, srv, connection{})
	c.must(t, 19, createBody("/c", "", 4))
	c.must(t, 4, body{}.str("/c").flag(true))
	c.must(t, 1, createBody("/c/x", "", 0))
	c.must(t, 8, body{}.str("/").flag(true))
	c.must(t, 2, body{}.str("/c/x").int(-1))
	require.Equal(t, rawEvent{2, "/c"}, waitForEvent(t, c))
	require.Equal(t, rawEvent{4, "/"}, waitForEvent(t, c))
}

func TestContainerTTLNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, connect := piped(t, zkserver.WithContainerCheckInterval(time.Second))
		c := connect(connection{timeoutMs: 10_000})
		exists := func() bool { return c.code(t, 3, body{}.str("/ttl").flag(false)) == 0 }
		reply := c.must(t, 21, createBody("/ttl", "", 5).long(2500))
		require.Equal(t, "/ttl", reply.fields.str())
		require.Zero(t, reply.fields.stat().owner)

		time.Sleep(2200 * time.Millisecond)
		c.must(t, 5, body{}.str("/ttl").str("").int(-1)) // starts its time again
		time.Sleep(2200 * time.Millisecond)
		require.True(t, exists())
		c.must(t, 1, createBody("/ttl/x", "", 0))
		time.Sleep(5 * time.Second)
		require.True(t, exists(), "has a child")
		c.must(t, 2, body{}.str("/ttl/x").int(-1))
		time.Sleep(time.Second)
		require.False(t, exists(), "not modified for long, a child going does not count")
	})
}
