// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
)

// FuzzConnectString: New never panics, and takes only what it can use: servers with a
// host and a port, and a chroot that is a path. What it took, it takes again as the client
// names it, and it is the same.
func FuzzConnectString(f *testing.F) {
	for _, s := range []string{
		"", "/", "/x", "a", "a:1", "a:1,b,c:3/x/y", "a:1, b:2", "a:1,,b", ",", "a:", ":1", "a:0", "a:65536", "a:+1", "a:x",
		"::1", "[::1]", "[::1]:7", "[::1", "[]:1", "::1,a/x", "[fe80::1%lo]:2181", "a:1//", "a:1/../b", "a:1/x/", "a b:1", "a:1/\x00", "\xff:1",
		"a:1/zookeeper", strings.Repeat("a:1,", 100) + "a", "a:1/" + strings.Repeat("x/", 100) + "y",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		client, err := framework.New(s)
		if err != nil {
			require.ErrorContains(t, err, "framework: connection string")
			return
		}
		require.NotEmpty(t, client.Servers())
		for _, server := range client.Servers() {
			host, port, err := net.SplitHostPort(server)
			require.NoError(t, err)
			require.NotEmpty(t, host)
			n := must.Get(strconv.Atoi(port))(t)
			require.Positive(t, n)
			require.Less(t, n, 1<<16)
		}
		require.NoError(t, framework.ValidatePath(client.FullPath("/")))
		again, err := framework.New(client.String())
		require.NoError(t, err, "%q became %q", s, client)
		require.Equal(t, client.Servers(), again.Servers())
		require.Equal(t, client.FullPath("/"), again.FullPath("/"))
	})
}
