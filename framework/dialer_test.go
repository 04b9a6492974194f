// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestDialerOfAClient asks a server how it is on a connection like the client's.
func TestDialerOfAClient(t *testing.T) {
	for name, opts := range map[string][]zkserver.Option{
		"TCP":       nil,
		"in memory": {zkserver.WithoutListener()},
	} {
		t.Run(name, func(t *testing.T) {
			client := zktest.Client(t, zktest.NewServer(t, opts...))
			conn := must.Get(client.Dialer()(t.Context(), "tcp", client.Servers()[0]))(t)
			defer conn.Close()
			must.Get(io.WriteString(conn, "ruok"))(t)
			require.Equal(t, "imok", string(must.Get(io.ReadAll(conn))(t)))
		})
	}
}
