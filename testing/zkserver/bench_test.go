// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		srv := must.Get(zkserver.Start())(b)
		require.NoError(b, rawTo(b, srv, connection{}).nc.Close())
		require.NoError(b, srv.Close())
	}
}

func BenchmarkGet(b *testing.B) {
	conn := clientOf(b, start(b))
	for b.Loop() {
		if _, _, err := conn.Get("/"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreateAndDelete(b *testing.B) {
	conn := clientOf(b, start(b))
	open := zk.WorldACL(zk.PermAll)
	for b.Loop() {
		p, err := conn.Create("/x-", nil, zk.FlagEphemeral|zk.FlagSequence, open)
		if err != nil {
			b.Fatal(err)
		}
		if err := conn.Delete(p, -1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPipelinedSets keeps many requests in flight, which leaves the round trip out.
func BenchmarkPipelinedSets(b *testing.B) {
	c := rawTo(b, start(b), connection{})
	c.must(b, 1, createBody("/a", "", 0))
	set := body{}.str("/a").str("some data").int(-1)
	const window = 64
	inFlight := 0
	for b.Loop() {
		if _, err := c.send(5, set); err != nil {
			b.Fatal(err)
		}
		if inFlight++; inFlight == window {
			for ; inFlight > 0; inFlight-- {
				if _, err := c.receive(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
