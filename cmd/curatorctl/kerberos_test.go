// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/kdc"
	zookeeper "github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// TestKerberos: at servers that serve principals of a realm only, all verbs work with a keytab, with tickets and with a JAAS file. The
// keeper of lock run is another process.
func TestKerberos(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Java and a KDC")
	}
	k := kdc.Start(t)
	k.AddPrincipal(t, "alice", "wonderland")
	k.AddPrincipal(t, "bob", "builder")
	k.AddPrincipal(t, "zookeeper/127.0.0.1", "")
	servers := zktest.NewEnsemble(t, 1, zookeeper.WithRequiredSASL(),
		zookeeper.WithKerberos(k.Conf, k.Keytab(t, "servers.keytab", "zookeeper/127.0.0.1"), kdc.Realm)).ConnectString()
	t.Setenv("KRB5_CONFIG", k.Conf)
	keytab, cache := k.Keytab(t, "bob.keytab", "bob"), filepath.Join(k.Dir, "cache")
	k.Kinit(t, cache, "alice", "wonderland", time.Hour)
	t.Setenv("KRB5CCNAME", "FILE:"+cache)
	const login = "com.sun.security.auth.module.Krb5LoginModule required"
	write := func(name, options string) string {
		k.Write(t, name, "Client {\n  "+login+"\n  "+options+";\n};\n")
		return filepath.Join(k.Dir, name)
	}
	for name, test := range map[string]struct {
		user  string
		flags []string
	}{
		"keytab": {"bob", []string{"-sasl-keytab", keytab, "-sasl-principal", "bob@" + kdc.Realm}},
		"cache":  {"alice", []string{"-sasl-cache", cache}},
		"kinit":  {"alice", []string{"-sasl-cache", "default", "-sasl-server", "zookeeper/127.0.0.1"}},
		"JAAS with a keytab": {"bob", []string{
			"-sasl-file", write("jaas", fmt.Sprintf("useKeyTab=true storeKey=true useTicketCache=false\n  keyTab=%q principal=%q", keytab, "bob")),
		}},
		"JAAS with a cache":   {"alice", []string{"-sasl-file", write("jaas2", fmt.Sprintf("useTicketCache=true ticketCache=%q", cache))}},
		"JAAS with the kinit": {"alice", []string{"-sasl-file", write("jaas3", "useKeyTab=false useTicketCache=true")}},
	} {
		said := curatorctl(t, servers, "", append(test.flags, "whoami")...)
		require.Equal(t, exitDone, said.status, "%s: %s", name, said.stderr)
		require.Contains(t, said.stdout, "sasl:"+test.user+"@"+kdc.Realm, name)
		said = curatorctl(t, servers, "", append(test.flags, "lock", "run", "-label", "nightly", "/locks/job", "--", "echo", "held")...)
		require.Equal(t, outcome{stdout: "held\n"}, said, name)
	}

	flags := []string{"-sasl-keytab", keytab, "-sasl-principal", "bob"}
	page := begin(t, servers, append(flags, "serve", "-listen", "127.0.0.1:0")...)
	page.out.await(t, "listening on http://")
	addr := strings.TrimSpace(strings.TrimPrefix(page.out.text.String(), "listening on http://"))
	holder := begin(t, servers, append(flags, "lock", "run", "-label", "nightly", "/locks/job", "--", "sh", "-c", "echo held; exec sleep 600")...)
	holder.out.await(t, "held")
	status, body := ask(t, addr, "", "/", http.NoBody)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "nightly (")
	require.Contains(t, curatorctl(t, servers, "", append(flags, "locks")...).stdout, "nightly (")
	holder.end(t)
	page.end(t)

	for want, flags := range map[string][]string{
		"has no key of alice@" + kdc.Realm:   {"-sasl-keytab", keytab, "-sasl-principal", "alice"},
		"keytab /nowhere: no such file":      {"-sasl-keytab", "/nowhere", "-sasl-principal", "alice"},
		"credential cache /nowhere: no such": {"-sasl-cache", "/nowhere"},
		"see -sasl-server":                   {"-sasl-cache", cache, "-sasl-server", "hbase/a"},
		"only clients that have authent":     {},
	} {
		said := curatorctl(t, servers, "", append(flags, "lock", "run", "/locks/other", "--", "true")...)
		require.Equal(t, exitNoPerm, said.status, "%s: %s", want, said.stderr)
		require.Contains(t, said.stderr, want)
	}
}
