// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestProgressOfInterruptedWork says what has been done, and the program exits as those do that a signal
// ends. Of what is done several at a time, the last answers may come later than the signal.
func TestProgressOfInterruptedWork(t *testing.T) {
	for _, test := range []struct {
		said string
		args []string
	}{
		{"read [0-2] of 5 znodes", []string{"export", "/from"}},
		{"wrote 2 of 5 znodes", []string{"import", "/to"}},
		{"deleted [0-2] of 5 znodes", []string{"rm", "-r", "-yes", "/from"}},
	} {
		t.Run(test.args[0], func(t *testing.T) {
			server := zktest.NewServer(t)
			fill(t, zktest.Client(t, server))
			export := curatorctl(t, server.Addr(), "", "export", "/from").stdout
			signals, never, writes := make(chan os.Signal, 1), make(chan struct{}), 0
			defer server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op != zkserver.OpCreate2 && r.Op != zkserver.OpCreate && r.Op != zkserver.OpDelete && r.Op != zkserver.OpGetACL {
					return zkserver.Pass
				}
				if writes++; writes < 3 {
					return zkserver.Pass
				}
				if writes == 3 {
					signals <- syscall.SIGINT
				}
				return zkserver.HoldUntil(never)
			})()
			defer close(never)
			var stderr strings.Builder
			p := program{stdin: strings.NewReader(export), stdout: io.Discard, stderr: &stderr, signals: signals, getenv: func(string) string { return "" }}
			status := p.run(zktest.Context(t), append([]string{"-servers", server.Addr()}, test.args...))
			require.Equal(t, exitSignal+int(syscall.SIGINT), status, stderr.String())
			require.Regexp(t, "curatorctl: "+test.said+": ended by signal: interrupt\n$", stderr.String())
		})
	}
}

// fill makes five znodes at /from.
func fill(t *testing.T, client *framework.Framework) {
	t.Helper()
	for i := range 4 {
		_, err := client.Create(t.Context(), fmt.Sprintf("/from/%d", i), []byte("data"), framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
	}
}
