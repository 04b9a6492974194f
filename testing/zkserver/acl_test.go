// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// TestACLLongACL creates a node with an ACL of 100,000 entries. The server checks it in linear time: while it does, it
// serves no other client.
func TestACLLongACL(t *testing.T) {
	const entries = 100_000
	srv := start(t, zkserver.WithoutListener(), zkserver.WithMaxFrame(8<<20))
	acl := body{}.int(entries + 1)
	for perms := range entries {
		acl = acl.int(int32(perms)).str("world").str("anyone")
	}
	acl = acl.int(0).str("world").str("anyone") // the first again, which counts once
	c := dialed(t, srv, connection{timeoutMs: 20_000})
	began := cpuTime()
	c.must(t, 1, body{}.str("/a").str("").join(acl).int(0))
	require.Less(t, cpuTime()-began, 5*time.Second, "in quadratic time it is half a minute")
	reply := c.must(t, 6, body{}.str("/a"))
	require.EqualValues(t, entries, reply.fields.int())
}

// TestACLIdentitiesMultiplyNoACL asks for more entries than any request has room for, by entries that stand for all
// identities of the client.
func TestACLIdentitiesMultiplyNoACL(t *testing.T) {
	srv := start(t, zkserver.WithoutListener())
	c := dialed(t, srv, connection{})
	const identities = 200
	for i := range identities {
		c.must(t, 100, body{}.int(0).str("digest").str(string(rune('a'+i))+":secret"))
	}
	acl := func(entries int) body {
		b := body{}.str("/a").str("").int(int32(entries))
		for perms := range entries {
			b = b.int(int32(perms)).str("auth").str("")
		}
		return b.int(0)
	}
	require.EqualValues(t, -114, c.code(t, 1, acl(1000)))
	c.must(t, 1, acl(2))
	reply := c.must(t, 6, body{}.str("/a"))
	require.EqualValues(t, 2*identities, reply.fields.int())
}

// TestACLMultiMultipliesNoACL spreads the entries over the operations of one request.
func TestACLMultiMultipliesNoACL(t *testing.T) {
	srv := start(t, zkserver.WithoutListener())
	c := dialed(t, srv, connection{})
	const identities, entries = 200, 400
	for i := range identities {
		c.must(t, 100, body{}.int(0).str("digest").str(string(rune('a'+i))+":secret"))
	}
	multi := body{}
	for i := range 50 {
		multi = multi.int(1).flag(false).int(-1).str(fmt.Sprintf("/%d", i)).str("").int(entries)
		for perms := range entries {
			multi = multi.int(int32(perms)).str("auth").str("")
		}
		multi = multi.int(0)
	}
	reply := c.must(t, 14, multi.int(-1).flag(true).int(-1))
	var codes []int32
	for range 2 {
		reply.fields.int()
		reply.fields.flag()
		codes = append(codes, reply.fields.int())
		reply.fields.int()
	}
	require.Equal(t, []int32{0, -114}, codes, "one node has room for them, two have not")
	require.EqualValues(t, -101, c.code(t, 3, body{}.str("/0").flag(false)))
}

// TestACLIdentitiesAreBounded: a further one is refused as one that is wrong.
func TestACLIdentitiesAreBounded(t *testing.T) {
	srv := start(t, zkserver.WithoutListener())
	c := dialed(t, srv, connection{})
	prove := func(i int) body { return body{}.int(0).str("digest").str(fmt.Sprintf("user%d:secret", i)) }
	for i := range 1000 {
		c.must(t, 100, prove(i))
	}
	c.must(t, 100, prove(0)) // again
	require.EqualValues(t, -115, c.code(t, 100, prove(1000)))
	c.hungUp(t)
}

// longACL is an ACL in which a reader is found last, a writer first.
func longACL() body {
	const entries = 30_000
	acl := body{}.int(entries + 2).int(2).str("world").str("anyone")
	for i := range entries {
		acl = acl.int(int32(i)<<5 | 1).str("digest").str("a:b")
	}
	return acl.int(1).str("world").str("anyone")
}

// TestACLChecksOfOneRequestAreBounded: a request with many operations on nodes with long ACLs does not stop the server.
func TestACLChecksOfOneRequestAreBounded(t *testing.T) {
	srv := start(t, zkserver.WithoutListener())
	c := dialed(t, srv, connection{})
	c.must(t, 1, body{}.str("/a").str("").join(longACL()).int(0))
	const reads = 10_000
	multi := body{}
	for range reads {
		multi = multi.int(4).flag(false).int(-1).str("/a").flag(false)
	}
	reply := c.must(t, 22, multi.int(-1).flag(true).int(-1))
	answered := 0
	for range reads {
		if op := reply.fields.int(); op == -1 {
			reply.fields.flag()
			reply.fields.int()
			require.EqualValues(t, -102, reply.fields.int())
			continue
		}
		answered++
		reply.fields.flag()
		reply.fields.int()
		reply.fields.str()
		reply.fields.stat()
	}
	require.NoError(t, reply.fields.err)
	require.Equal(t, (1<<22)/(2*30_000+2), answered)
	c.must(t, 4, body{}.str("/a").flag(false)) // another request
}

// TestWatchesThatCannotBeChecked: a client that may miss an event is cut, so it sets its watches again.
func TestWatchesThatCannotBeChecked(t *testing.T) {
	srv := start(t, zkserver.WithoutListener())
	c, watcher := dialed(t, srv, connection{}), dialed(t, srv, connection{})
	c.must(t, 1, body{}.str("/a").str("").join(longACL()).int(0))
	watcher.must(t, 106, body{}.str("/a").int(0))
	multi := body{}
	for range 100 {
		multi = multi.int(5).flag(false).int(-1).str("/a").str("x").int(-1)
	}
	c.must(t, 14, multi.int(-1).flag(true).int(-1))
	watcher.hungUp(t)
	require.Len(t, watcher.pending, (1<<22)/(2*30_000+2))
	back := dialed(t, srv, connection{session: watcher.session, password: watcher.password})
	require.Equal(t, watcher.session, back.session)
}
