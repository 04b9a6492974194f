// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ensemble_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/ensemble"
)

func TestSecuritySuperDigest(t *testing.T) {
	t.Parallel()
	server := start(t, ensemble.WithSuperDigest("super", "secret")).Server(0)
	require.Empty(t, server.SecureAddr(), "which only WithTLS gives")
	owner := connect(t, server.Addr())
	require.NoError(t, owner.AddAuth("digest", []byte("owner:password")))
	_, err := owner.Create("/private", []byte("data"), 0, zk.AuthACL(zk.PermAll))
	require.NoError(t, err)

	for password, want := range map[string]error{"wrong": zk.ErrNoAuth, "secret": nil} {
		conn := connect(t, server.Addr())
		require.NoError(t, conn.AddAuth("digest", []byte("super:"+password)))
		_, _, err = conn.Get("/private")
		require.Equal(t, want, err)
	}
}
