// SPDX-License-Identifier: Apache-2.0

package gssapi

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
	"unique"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hidden"
)

// failing is a source whose credentials cannot be used.
type failing struct {
	asked int
	err   error
	of    material
}

func (f *failing) read() (material, error) { return f.of, nil }

func (f *failing) grant(context.Context, *config.Config, material) (*client.Client, *ticket, error) {
	f.asked++
	return nil, nil, f.err
}

// TestTicketWhenTicketsAreRenewed: when half of their lifetime has passed. Until they expire they serve while no KDC can be
// reached, but not when a KDC has refused the principal.
func TestTicketWhenTicketsAreRenewed(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[libdefaults]\n default_realm = A\n"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		unreachable := errors.New("no KDC could be reached")
		source := &failing{err: unreachable}
		m := &Mechanism{source: source, conf: conf, tickets: make(map[string]*ticket)}
		known := &ticket{got: time.Now(), end: time.Now().Add(time.Hour)}
		m.accept("zookeeper/a", known)
		get := func(principal string) (*ticket, error) {
			t, _, err := m.ticketFor(t.Context(), principal)
			return t, err
		}

		_, err := get("zookeeper/b")
		require.ErrorIs(t, err, unreachable, "the ticket of another server")
		require.Equal(t, 1, source.asked)
		time.Sleep(29 * time.Minute)
		found, err := get("zookeeper/a")
		require.NoError(t, err)
		require.Same(t, known, found)
		require.Equal(t, 1, source.asked, "more than half is left")

		time.Sleep(2 * time.Minute)
		found, err = get("zookeeper/a")
		require.NoError(t, err)
		require.Same(t, known, found)
		require.Equal(t, 2, source.asked)
		source.err = refused(errors.New("the principal is locked"))
		_, err = get("zookeeper/a")
		require.ErrorIs(t, err, source.err)

		source.err, source.of = unreachable, material{client: "a", data: unique.Make("other")}
		known.of = material{client: "a"}
		found, err = get("zookeeper/a")
		require.NoError(t, err)
		require.Same(t, known, found, "another ticket of the same client is worth a try only")
		require.Equal(t, 4, source.asked)
		source.of.client = "b"
		_, err = get("zookeeper/a")
		require.ErrorIs(t, err, unreachable, "of another client")
		m.drop("zookeeper/a", &ticket{})
		source.of = known.of
		_, err = get("zookeeper/a")
		require.NoError(t, err)
		m.drop("zookeeper/a", known)
		_, err = get("zookeeper/a")
		require.ErrorIs(t, err, unreachable, "the server has refused it")
		m.accept("zookeeper/a", known)
		time.Sleep(29 * time.Minute)
		_, err = get("zookeeper/a")
		require.ErrorIs(t, err, unreachable, "it has expired")
	})
}

// TestTicketPrincipals: a server's principal comes from the connection string, the name service or an option.
func TestTicketPrincipals(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[libdefaults]\n default_realm = A\n"), 0o600))
	server := framework.SASLServer{Host: "ZK.example", Address: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 2181}}
	names := map[string][]string{"192.0.2.1": {"Zk1.Example.", "other."}}
	lookup := func(_ context.Context, address string) ([]string, error) { return names[address], nil }
	for want, opts := range map[string][]Option{
		"zookeeper/zk.example":  nil,
		"hbase/zk.example":      {WithServiceName("hbase")},
		"zookeeper/zk1.example": {WithCanonicalHost()},
		"zookeeper/all@B":       {WithCanonicalHost(), WithServerPrincipal("zookeeper/all@B")},
	} {
		m, err := CredentialCache("cache", append(opts, WithConfig(conf))...)
		require.NoError(t, err)
		if m.lookup != nil {
			m.lookup = lookup
		}
		got, err := m.principalOf(t.Context(), server)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	names = nil
	m, err := CredentialCache("cache", WithCanonicalHost(), WithConfig(conf))
	require.NoError(t, err)
	m.lookup = lookup
	_, err = m.principalOf(t.Context(), server)
	require.ErrorContains(t, err, "the canonical name of 192.0.2.1: it has none")
}

// TestSecretsOfTickets: neither keys of tickets nor those of a keytab are shown.
func TestSecretsOfTickets(t *testing.T) {
	const secret = "open-sesame-1234"
	of := material{client: "a", data: unique.Make(secret)}
	key := hide(types.EncryptionKey{KeyType: 18, KeyValue: []byte(secret)})
	known := &ticket{key: key, of: of}
	m := &Mechanism{source: &keytabSource{"/etc/keytab", "a"}, tickets: map[string]*ticket{"zookeeper/a": known}}
	e := &exchange{ticket: known, key: key}
	hidden.Require(t, secret, map[string]any{
		"mechanism": m, "ticket": known, "material": of, "exchange": e, "exchange with a kept ticket": &keptExchange{e, func() {}},
		"source with a password": &passwordSource{"a", func(context.Context) (string, error) { return secret, nil }},
		"source with a client":   &clientSource{client.NewWithPassword("a", "A", secret, config.New())},
	})
}
