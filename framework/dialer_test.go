// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

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
			conn, err := client.Dialer()(t.Context(), "tcp", client.Servers()[0])
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "ruok")
			require.NoError(t, err)
			answer, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Equal(t, "imok", string(answer))
		})
	}
}
