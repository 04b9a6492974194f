package zkserver_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// TestLongACL creates a node with an ACL of 100,000 entries. The server checks it in linear time: while it does, it
// serves no other client.
func TestLongACL(t *testing.T) {
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

// cpuTime returns the processor time that this process has used. Other processes do not add to it.
func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails for bad arguments only
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestIdentitiesMultiplyNoACL asks for more entries than any request has room for, by entries that stand for all
// identities of the client.
func TestIdentitiesMultiplyNoACL(t *testing.T) {
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
