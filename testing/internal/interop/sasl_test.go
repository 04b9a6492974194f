// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/interop"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestSASLOfBothSides: Curator with a JAAS file and a client in Go share a lock and a znode of one user of SASL, on servers that
// serve no client without it.
func TestSASLOfBothSides(t *testing.T) {
	needsJava(t)
	jaas := filepath.Join(t.TempDir(), "jaas.conf")
	require.NoError(t, os.WriteFile(jaas, []byte(
		"Client {\n org.apache.zookeeper.server.auth.DigestLoginModule required username=\"alice\" password=\"wonderland\";\n};\n"), 0o600))
	t.Setenv("JAVA_TOOL_OPTIONS", "-Djava.security.auth.login.config="+jaas)
	peer, err := interop.Start(zktest.Context(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, peer.Close()) })
	t.Setenv("JAVA_TOOL_OPTIONS", "") // the servers have JAAS files of their own

	users := map[string]string{"alice": "wonderland", "bob": "x"}
	for name, server := range map[string]string{
		"zkserver":  zktest.NewServer(t, zkserver.WithSASLUsers(users), zkserver.WithRequireClientAuthScheme("sasl")).Addr(),
		"zookeeper": zktest.NewEnsemble(t, 1, ensemble.WithSASLUsers(users), ensemble.WithRequiredSASL()).ConnectString(),
	} {
		t.Run(name, func(t *testing.T) {
			const path = "/locks/sasl"
			client := zktest.Client(t, server, framework.WithSASL(framework.DigestMD5("alice", "wonderland")))
			_, err := client.Create(t.Context(), "/mine", []byte("by Go"), framework.WithACL(framework.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: "alice"}))
			require.NoError(t, err)
			java := actor{peer.Actor("java-" + name)}
			java.do(t, "connect", server, "10000")
			t.Cleanup(func() { java.close(t) })
			require.Equal(t, "by Go", java.do(t, "get", "/mine")[0])
			bob := zktest.Client(t, server, framework.WithSASL(framework.DigestMD5("bob", "x")))
			_, err = bob.Get(t.Context(), "/mine")
			require.ErrorIs(t, err, framework.ErrNoAuth)

			mutex := newMutex(t, client, path)
			java.do(t, "mutex", "m", path)
			node, _ := java.acquire(t, "m")
			got := acquireLater(t, mutex)
			require.Equal(t, node, awaitQueue(t, mutex, 2)[0].Path)
			java.do(t, "release", "m")
			require.NoError(t, (<-got).Release(zktest.Context(t)))
		})
	}
}
