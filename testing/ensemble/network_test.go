//go:build linux

package ensemble_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/ensemble"
)

func TestNetwork(t *testing.T) {
	began := time.Now()
	e := start(t, ensemble.WithSize(3), ensemble.WithNetwork())
	t.Log("started in", time.Since(began))
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	host, err := e.Network().Join("client")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err := host.DialContext(ctx, "tcp", leader.Addr())
	require.NoError(t, err)
	t.Log(conn.LocalAddr(), conn.RemoteAddr())
	conn.Close()
	e.Network().Isolate(leader.Host())
	_, err = host.DialContext(ctx, "tcp", leader.Addr())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	t.Log(err)
	next, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, leader, next)
	t.Log("new leader after", time.Since(began))
}
