// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/testing/zkserver"
)

// dump describes all nodes below a path and what the server counts.
func dump(tb testing.TB, srv *zkserver.Server, c *rawClient) []string {
	tb.Helper()
	list := []string{fmt.Sprintf("%+v %s", srv.Stats(), keysOf(tb, srv.Addr())["zk_approximate_data_size"])}
	var walk func(string)
	walk = func(p string) {
		read := c.must(tb, 4, body{}.str(p).flag(false))
		list = append(list, fmt.Sprintf("%s %q %+v", p, read.fields.str(), read.fields.stat()))
		below := c.must(tb, 8, body{}.str(p).flag(false))
		children := below.fields.strs()
		slices.Sort(children)
		for _, name := range children {
			walk(p + "/" + name)
		}
	}
	walk("/r")
	own := c.must(tb, 103, body{}.str("/r"))
	names := own.fields.strs()
	slices.Sort(names)
	return append(list, fmt.Sprint(names))
}

// deleteBelow deletes all nodes below a path.
func deleteBelow(tb testing.TB, c *rawClient, p string) {
	tb.Helper()
	below := c.must(tb, 8, body{}.str(p).flag(false))
	for _, name := range below.fields.strs() {
		deleteBelow(tb, c, p+"/"+name)
		c.must(tb, 2, body{}.str(p+"/"+name).int(-1))
	}
}

// TestRollbackFailedMultiLeavesNoTrace applies lists of operations that work one after the other, followed by one that fails:
// every node, every Stat, every counter and index is as before, and the same operations without the last one then work.
func TestRollbackFailedMultiLeavesNoTrace(t *testing.T) {
	srv := start(t)
	c := rawTo(t, srv, connection{})
	c.must(t, 1, createBody("/r", "", 0))
	paths := rapid.SampledFrom([]string{"/r/a", "/r/b", "/r/a/x", "/r/a/y", "/r/b/x"})
	rapid.Check(t, func(rt *rapid.T) {
		deleteBelow(t, c, "/r")
		c.must(t, 1, createBody("/r/a", "1", 0))
		c.must(t, 1, createBody("/r/a/x", "22", 1))
		before := dump(t, srv, c)

		var ops []any
		for range rapid.IntRange(1, 8).Draw(rt, "operations") {
			p := paths.Draw(rt, "path")
			var op []any
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				flags := rapid.SampledFrom([]int32{0, 1, 2, 3, 4}).Draw(rt, "flags")
				op = []any{1, createBody(p, "new", flags)}
			case 1:
				op = []any{21, createBody(p, "ttl", 5).long(100_000)}
			case 2:
				op = []any{2, body{}.str(p).int(-1)}
			case 3:
				op = []any{5, body{}.str(p).str("changed").int(-1)}
			}
			try := append(slices.Clone(ops), op...)
			if failed(t, c, append(slices.Clone(try), 13, body{}.str("/none").int(-1)), len(try)/2) {
				ops = try
			}
			require.Equal(t, before, dump(t, srv, c))
		}
		if len(ops) > 0 {
			reply := c.must(t, 14, multiOf(ops...))
			require.NotEqual(t, opError, reply.fields.int(), "the first result is not an error")
			require.NotEqual(t, before, dump(t, srv, c))
		}
	})
}

const opError int32 = -1

// failed runs a multi that cannot work and tells whether it was the last of its operations, at index last, that failed.
func failed(t *testing.T, c *rawClient, ops []any, last int) bool {
	t.Helper()
	reply := c.must(t, 14, multiOf(ops...))
	for i := 0; ; i++ {
		require.Equal(t, opError, reply.fields.int())
		require.False(t, reply.fields.flag())
		reply.fields.int()
		if code := reply.fields.int(); code != 0 {
			return i == last
		}
	}
}
