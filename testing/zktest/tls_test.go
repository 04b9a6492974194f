// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestClientOverTLS has the client and the embedded server encrypt, over TCP and in
// memory, and a super user who may do everything.
func TestClientOverTLS(t *testing.T) {
	holder := httptest.NewTLSServer(nil)
	defer holder.Close()
	roots := x509.NewCertPool()
	roots.AddCert(holder.Certificate())
	for name, opts := range map[string][]zkserver.Option{
		"TCP":       nil,
		"in memory": {zkserver.WithoutListener()},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t, append(opts,
				zkserver.WithTLS(&tls.Config{Certificates: holder.TLS.Certificates}),
				zkserver.WithSuperDigest(zkserver.SuperDigest("secret")))...)
			t.Cleanup(func() { zktest.AssertClean(t, server) })
			secure := framework.WithTLS(&tls.Config{RootCAs: roots, ServerName: "example.com"})
			client := zktest.Client(t, server, secure)
			nobody := framework.ACL{Perms: zk.PermAll, Scheme: "digest", ID: "nobody:x"}
			must.Get(client.Create(t.Context(), "/locked", []byte("data"), framework.WithACL(nobody)))(t)
			_, err := client.Get(t.Context(), "/locked")
			require.ErrorIs(t, err, framework.ErrNoAuth)
			super := zktest.Client(t, server, secure, framework.WithAuth("digest", []byte("super:secret")))
			require.Equal(t, "data", string(must.Get(super.Get(t.Context(), "/locked"))(t)))

			session := client.Session()
			zktest.KillSession(t, client) // it connects as the client does
			zktest.Await(t, session.Done(), "the end of the session")
			require.ErrorIs(t, session.Err(), framework.ErrSessionExpired)
		})
	}
}
