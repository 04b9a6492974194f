// SPDX-License-Identifier: Apache-2.0

package gssapi_test

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

const realm = "CURATOR.TEST"

// kdc is a realm with a KDC of MIT's Kerberos on a port of the loopback interface.
type kdc struct {
	dir  string
	conf string // krb5.conf
	env  []string
	stop func()
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

// startKDC makes a realm.
func startKDC(tb testing.TB) *kdc {
	tb.Helper()
	k := &kdc{dir: tb.TempDir(), addr: freeAddress(tb)}
	k.conf = filepath.Join(k.dir, "krb5.conf")
	k.write(tb, "krb5.conf", fmt.Sprintf(`[libdefaults]
 default_realm = %[1]s
 dns_lookup_kdc = false
 dns_lookup_realm = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %[1]s = {
  kdc = %[2]s
 }
`, realm, k.addr))
	k.write(tb, "kdc.conf", fmt.Sprintf(`[kdcdefaults]
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
`, realm, k.addr, k.dir))
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.conf, "KRB5_KDC_PROFILE="+filepath.Join(k.dir, "kdc.conf"))
	k.run(tb, "", "kdb5_util", "create", "-r", realm, "-s", "-P", "master", "-W")
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

func (k *kdc) write(tb testing.TB, name, text string) {
	tb.Helper()
	require.NoError(tb, os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600))
}

func (k *kdc) command(ctx context.Context, tb testing.TB, name string, args ...string) *exec.Cmd {
	tb.Helper()
	cmd := exec.CommandContext(ctx, find(tb, name), args...)
	cmd.Env = k.env
	return cmd
}

func (k *kdc) run(tb testing.TB, input, name string, args ...string) {
	tb.Helper()
	cmd := k.command(tb.Context(), tb, name, args...)
	cmd.Stdin = strings.NewReader(input)
	output, err := cmd.CombinedOutput()
	require.NoError(tb, err, "%s %v: %s", name, args, output)
}

// start starts the KDC, which ends with the test or by stop.
func (k *kdc) start(tb testing.TB) {
	tb.Helper()
	cmd := k.command(context.WithoutCancel(tb.Context()), tb, "krb5kdc", "-n")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(tb, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // it is killed
	k.stop = func() { _ = cmd.Process.Kill(); <-ended }
	tb.Cleanup(k.stop)
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

// admin runs a command of kadmin.
func (k *kdc) admin(tb testing.TB, command string) {
	tb.Helper()
	k.run(tb, "", "kadmin.local", "-r", realm, "-q", command)
}

// addPrincipal adds a principal with a password, or with a key that nobody knows if that is empty.
func (k *kdc) addPrincipal(tb testing.TB, name, password string) {
	tb.Helper()
	how := "-randkey"
	if password != "" {
		how = "-pw " + password
	}
	k.admin(tb, "addprinc "+how+" "+name)
}

// keytab writes new keys of principals to a file, and returns its path.
func (k *kdc) keytab(tb testing.TB, name string, principals ...string) string {
	tb.Helper()
	path := filepath.Join(k.dir, name)
	k.admin(tb, "ktadd -k "+path+" "+strings.Join(principals, " "))
	return path
}

// kinit writes a ticket that is good for the given time to a credential cache.
func (k *kdc) kinit(tb testing.TB, cache, principal, password string, lifetime time.Duration) {
	tb.Helper()
	k.run(tb, password+"\n", "kinit", "-c", cache, "-l", fmt.Sprintf("%ds", int(lifetime.Seconds())), principal)
}
