// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// TestFailOne has the next contender enter when the connection of the holder ends. One lock
// tells its holder of that, and another does not.
func TestFailOne(t *testing.T) {
	t.Parallel()
	for name, tells := range map[string]bool{"a lock that tells": true, "a lock that does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
			defer server.Close()
			var ended chan struct{} // when the holder's connection has ended
			take := func(ctx context.Context, addr, _ string) (taken, error) {
				if ended != nil {
					<-ended
					return taken{}, nil
				}
				ended = make(chan struct{})
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
				if err != nil {
					return taken{}, err
				}
				go func() {
					_, _ = io.Copy(io.Discard, conn)
					close(ended)
				}()
				held := taken{open: closers{conn.Close}}
				if tells {
					held.lost = ended
				}
				return held, nil
			}
			seconds, told, err := failOne(t.Context(), take, server.Addr().String(), "/lock")
			require.NoError(t, err)
			require.Less(t, seconds, sessionTimeout.Seconds(), "the waiter has waited from before the cut")
			require.Equal(t, tells, told)
		})
	}
}
