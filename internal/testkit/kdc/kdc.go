// SPDX-License-Identifier: Apache-2.0

// Package kdc starts a realm of Kerberos for tests, with a KDC of MIT's.
package kdc

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Realm is the name of the realm.
const Realm = "CURATOR.TEST"

// KDC is a realm with a KDC on a port of the loopback interface.
type KDC struct {
	Dir  string // the folder of its files
	Conf string // the path of krb5.conf
	Stop func()

	env  []string
	addr string
}

// tools are the programs of the Debian packages krb5-kdc, krb5-admin-server and krb5-user.
var tools = map[string]string{
	"krb5kdc": "krb5-kdc", "kdb5_util": "krb5-kdc", "kadmin.local": "krb5-admin-server", "kinit": "krb5-user",
}

func find(tb testing.TB, tool string) string {
	tb.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + tool)
	}
	require.NoError(tb, err, "no %s: install %s (Debian); -short leaves this test out", tool, tools[tool])
	return path
}

// Start makes a realm.
func Start(tb testing.TB) *KDC {
	tb.Helper()
	k := &KDC{Dir: tb.TempDir(), addr: freeAddress(tb)}
	k.Conf = filepath.Join(k.Dir, "krb5.conf")
	k.Write(tb, "krb5.conf", fmt.Sprintf(`[libdefaults]
 default_realm = %[1]s
 dns_lookup_kdc = false
 dns_lookup_realm = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %[1]s = {
  kdc = %[2]s
 }
`, Realm, k.addr))
	k.Write(tb, "kdc.conf", fmt.Sprintf(`[kdcdefaults]
 kdc_listen = %[2]s
 kdc_tcp_listen = %[2]s
[realms]
 %[1]s = {
  database_name = %[3]s/principal
  key_stash_file = %[3]s/stash
  acl_file = %[3]s/acl
  max_life = 1h
  clockskew = 5
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  default_principal_flags = +preauth
 }
[logging]
 kdc = FILE:%[3]s/kdc.log
`, Realm, k.addr, k.Dir))
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.Conf, "KRB5_KDC_PROFILE="+filepath.Join(k.Dir, "kdc.conf"))
	k.run(tb, "", "kdb5_util", "create", "-r", Realm, "-s", "-P", "master", "-W")
	k.start(tb)
	return k
}

func freeAddress(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	require.NoError(tb, l.Close())
	return l.Addr().String()
}

// Write writes a file into the folder.
func (k *KDC) Write(tb testing.TB, name, text string) {
	tb.Helper()
	require.NoError(tb, os.WriteFile(filepath.Join(k.Dir, name), []byte(text), 0o600))
}

func (k *KDC) command(ctx context.Context, tb testing.TB, name string, args ...string) *exec.Cmd {
	tb.Helper()
	cmd := exec.CommandContext(ctx, find(tb, name), args...)
	cmd.Env = k.env
	return cmd
}

func (k *KDC) run(tb testing.TB, input, name string, args ...string) {
	tb.Helper()
	cmd := k.command(tb.Context(), tb, name, args...)
	cmd.Stdin = strings.NewReader(input)
	output, err := cmd.CombinedOutput()
	require.NoError(tb, err, "%s %v: %s", name, args, output)
}

// start starts the KDC, which ends with the test or by Stop.
func (k *KDC) start(tb testing.TB) {
	tb.Helper()
	cmd := k.command(context.WithoutCancel(tb.Context()), tb, "krb5kdc", "-n")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(tb, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // it is killed
	k.Stop = func() { _ = cmd.Process.Kill(); <-ended }
	tb.Cleanup(k.Stop)
	for {
		conn, err := net.Dial("tcp", k.addr)
		if err == nil {
			require.NoError(tb, conn.Close())
			return
		}
		select {
		case <-ended:
			tb.Fatalf("krb5kdc ended: %s", output.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Admin runs a command of kadmin.
func (k *KDC) Admin(tb testing.TB, command string) {
	tb.Helper()
	k.run(tb, "", "kadmin.local", "-r", Realm, "-q", command)
}

// AddPrincipal adds a principal with a password, or with a random key if that is empty.
func (k *KDC) AddPrincipal(tb testing.TB, name, password string) {
	tb.Helper()
	how := "-randkey"
	if password != "" {
		how = "-pw " + password
	}
	k.Admin(tb, "addprinc "+how+" "+name)
}

// Keytab writes new keys of principals to a file, and returns its path.
func (k *KDC) Keytab(tb testing.TB, name string, principals ...string) string {
	tb.Helper()
	path := filepath.Join(k.Dir, name)
	k.Admin(tb, "ktadd -k "+path+" "+strings.Join(principals, " "))
	return path
}

// Kinit writes a ticket that is good for the given time to a credential cache.
func (k *KDC) Kinit(tb testing.TB, cache, principal, password string, lifetime time.Duration) {
	tb.Helper()
	k.run(tb, password+"\n", "kinit", "-c", cache, "-l", fmt.Sprintf("%ds", int(lifetime.Seconds())), principal)
}
