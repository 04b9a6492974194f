// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/hidden"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestSASL: the command proves an identity from the environment or a file, says which, and never shows a password.
func TestSASL(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithSASLUsers(map[string]string{"alice": "wonder:land"}), zkserver.WithRequireClientAuthScheme("sasl"))
	file := filepath.Join(t.TempDir(), "sasl")
	require.NoError(t, os.WriteFile(file, []byte("digest-md5:alice:wonder:land\n"), 0o600))
	run := func(env map[string]string, args ...string) outcome {
		said := program{}.in(t, env, append([]string{"-servers", server.Addr()}, args...)...)
		require.NotContains(t, said.stdout+said.stderr, "land")
		return said
	}
	for _, env := range []map[string]string{{"CURATOR_SASL": "digest-md5:alice:wonder:land"}, {"CURATOR_SASL_FILE": file}} {
		said := run(env, "whoami")
		require.Equal(t, exitDone, said.status, said.stderr)
		require.Equal(t, "ip:127.0.0.1\nsasl:alice\n", said.stdout)
	}
	said := run(map[string]string{}, "-sasl-file", file, "ls", "/")
	require.Equal(t, exitDone, said.status, said.stderr)

	refused := map[string]string{"CURATOR_SASL": "digest-md5:alice:looking-glassland"}
	said = run(refused, "ls", "/")
	require.Equal(t, exitNoPerm, said.status)
	require.Contains(t, said.stderr, "DIGEST-MD5")
	require.Equal(t, exitDone, run(refused, "ensemble").status)
	require.Equal(t, exitNoPerm, run(map[string]string{}, "ls", "/").status)

	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "jaas")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	said = run(map[string]string{}, "ls", "/", "-sasl-file", write(`// of the clients
Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_alice="wonder:land"; };
/* the clients */ Client {
  org.apache.zookeeper.server.auth.DigestLoginModule REQUIRED
  username=alice password="wonder\u003aland";
};`))
	require.Equal(t, exitDone, said.status, said.stderr)

	conf := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(conf, []byte("[libdefaults]\n default_realm = A\n"), 0o600))
	t.Setenv("KRB5_CONFIG", conf)
	const (
		krb5   = "com.sun.security.auth.module.Krb5LoginModule required "
		digest = "a.DigestLoginModule required "
	)
	for want, env := range map[string]map[string]string{
		"CURATOR_SASL together with -sasl-file or CURATOR_SASL_FILE: expected one": {"CURATOR_SASL": "digest-md5:a:b", "CURATOR_SASL_FILE": file},
		"together with -sasl-cache or CURATOR_SASL_CACHE: expected one":            {"CURATOR_SASL_KEYTAB": "a", "CURATOR_SASL_CACHE": "b"},
		"-sasl-principal without -sasl-keytab":                                     {"CURATOR_SASL_CACHE": "b", "CURATOR_SASL_PRINCIPAL": "a"},
		"-sasl-keytab without -sasl-principal":                                     {"CURATOR_SASL_KEYTAB": "a"},
		"-sasl-keytab: principal \"a@\", expected one such as":                     {"CURATOR_SASL_KEYTAB": "a", "CURATOR_SASL_PRINCIPAL": "a@"},
		"-sasl-server without":                                                     {"CURATOR_SASL_SERVER": "canonical"},
		"-sasl-server with DIGEST-MD5":                                             {"CURATOR_SASL_SERVER": "a/b", "CURATOR_SASL_FILE": file},
		"-sasl-cache: principal \"@\"":                                             {"CURATOR_SASL_SERVER": "@", "CURATOR_SASL_CACHE": "a"},
		"-sasl-cache: credential cache \"KCM:0\", expected a file":                 {"CURATOR_SASL_CACHE": "KCM:0"},
		"no such file":                    {"CURATOR_SASL_FILE": "/nowhere"},
		"CURATOR_SASL: expected":          {"CURATOR_SASL": "alice:land"},
		"expected digest-md5:user":        {"CURATOR_SASL": "digest-md5:land"},
		"Kerberos has -sasl-keytab":       {"CURATOR_SASL": "gssapi:alice"},
		"empty user":                      {"CURATOR_SASL": "digest-md5::land"},
		"or JAAS with a section Client":   {"CURATOR_SASL_FILE": write("")},
		`sections ["Server"], expected`:   {"CURATOR_SASL_FILE": write(`Server { ` + krb5 + `; };`)},
		"line 2: a second section":        {"CURATOR_SASL_FILE": write("Client { " + krb5 + "; };\nClient { " + krb5 + "; };")},
		"0 login modules":                 {"CURATOR_SASL_FILE": write(`Client { };`)},
		"2 login modules":                 {"CURATOR_SASL_FILE": write(`Client { ` + krb5 + `; ` + digest + `; };`)},
		`login module "Other", expected`:  {"CURATOR_SASL_FILE": write(`Client { a.Other required; };`)},
		"expected username and password":  {"CURATOR_SASL_FILE": write(`Client { ` + digest + ` password=land; };`)},
		"useKeyTab=true or useTicket":     {"CURATOR_SASL_FILE": write(`Client { ` + krb5 + ` keyTab="a" principal="b"; };`)},
		"expected keyTab and principal":   {"CURATOR_SASL_FILE": write(`Client { ` + krb5 + ` useKeyTab=true keytab="a" principal="b"; };`)},
		"principal with useTicketCache":   {"CURATOR_SASL_FILE": write(`Client { ` + krb5 + ` useTicketCache=true principal="b"; };`)},
		"keyTab: properties such as ${us": {"CURATOR_SASL_FILE": write(`Client { ` + krb5 + ` useKeyTab=true keyTab="${user.home}/a"; };`)},
		"line 3: expected ;":              {"CURATOR_SASL_FILE": write("Client {\n" + krb5 + ";\n}")},
		"line 2: expected a value in quo": {"CURATOR_SASL_FILE": write("Client {\n" + krb5 + "keyTab=/etc/land;\n};")},
		"line 2: expected =":              {"CURATOR_SASL_FILE": write("Client {\n" + digest + "password=wonder land;\n};")},
		"expected the class of a login":   {"CURATOR_SASL_FILE": write(`Client { ` + digest + ` password=a; land "wonder"; };`)},
		"literal not terminated":          {"CURATOR_SASL_FILE": write(`Client { ` + digest + ` password="land; };`)},
		"comment not terminated":          {"CURATOR_SASL_FILE": write(`Client { /* land`)},
		"expected the name of a section":  {"CURATOR_SASL_FILE": write(`{ land };`)},
	} {
		said := run(env, "ls", "/")
		require.Equal(t, exitUsage, said.status, want)
		require.Contains(t, said.stderr, want)
	}
}

// TestSecretsOfSettings: no setting shows a password, wherever it has been read.
func TestSecretsOfSettings(t *testing.T) {
	const secret = "open-sesame-1234"
	const jaas = `Client { DigestLoginModule required username="alice" password="` + secret + `"; };`
	values := make(map[string]any)
	for name, text := range map[string]string{
		"digest": "digest-md5:alice:" + secret,
		"JAAS":   jaas,
	} {
		env := map[string]string{"CURATOR_SASL": text, "CURATOR_AUTH": "digest:alice:" + secret}
		all := fromEnvironment(func(name string) string { return env[name] })
		id, _, err := all.sasl.read()
		require.NoError(t, err)
		require.Equal(t, secret, id.password.Text())
		mechanism := must.Get(all.sasl.mechanism())(t)
		values["settings with "+name], values["credential with "+name], values["mechanism with "+name] = all, id, mechanism
	}
	module := must.Get(readJAAS(jaas))(t)
	values["login"] = *module
	hidden.Require(t, secret, values)
}
