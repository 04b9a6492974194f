// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

// TestACLsSurviveAsTextAndJSON, whatever their ids contain.
func TestACLsSurviveAsTextAndJSON(t *testing.T) {
	list := acl{
		{Scheme: "x509", ID: `CN=a\,b,O="c",C=de`, Perms: framework.PermRead | framework.PermAdmin},
		{Scheme: "x509", ID: `ends with a backslash\`, Perms: 0},
		{Scheme: "ip", ID: "::1/128", Perms: framework.PermAll},
	}
	read, err := parseACL(list.String())
	require.NoError(t, err)
	require.Equal(t, list, read)
	text, err := json.Marshal(record{ACL: list})
	require.NoError(t, err)
	require.Contains(t, string(text), `"acl":[{"scheme":"x509","id":"CN=a\\,b,O=\"c\",C=de","perms":"ra"},`)
	var r record
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, list, r.ACL)

	require.NoError(t, json.Unmarshal([]byte(`{"acl":"world:anyone:r,digest:user:hash:cd"}`), &r))
	require.Equal(t, acl{{Scheme: "world", ID: "anyone", Perms: 1}, {Scheme: "digest", ID: "user:hash", Perms: 12}}, r.ACL, "as text")
}

// TestACLWithMaskedDigestsIsNotExported: a client without the ADMIN permission sees user:x, to which no
// password fits.
func TestACLWithMaskedDigestsIsNotExported(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	list := append(framework.DigestACL(framework.PermAll, "us,er", "password"), framework.ReadACL()...)
	_, err := client.Create(t.Context(), "/from/a", []byte("data"), framework.WithACL(list...), framework.CreatingParentsIfNeeded())
	require.NoError(t, err)
	play(t, server.Addr(), `
$ acl /from/a
digest:us\,er:x:rwcda,world:anyone:r
$ export /from
[77] curatorctl: *access control list of /from/a: *ADMIN permission is missing*
$ import /copy
< {"path":"","data":"","acl":"world:anyone:rwcda"}
< {"path":"/a","data":"","acl":"digest:user:x:rwcda"}
[1] curatorctl: record 2: *ADMIN permission is missing*
$ import /copy
< {"path":"","data":"","acl":[]}
[1] curatorctl: record 1: no access control list
$ acl /from digest:user:x:rwcda
[64] curatorctl: acl: *ADMIN permission is missing*
$ acl /from
world:anyone:rwcda
$ ls
from
zookeeper
`)

	as := func(stdin string, args ...string) outcome {
		var stdout, stderr bytes.Buffer
		p := program{
			stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr,
			getenv: func(name string) string {
				return map[string]string{"CURATOR_SERVERS": server.Addr(), "CURATOR_AUTH": "digest:us,er:password"}[name]
			},
		}
		status := p.run(zktest.Context(t), args)
		return outcome{stdout.String(), stderr.String(), status}
	}
	exported := as("", "export", "/from")
	require.Zero(t, exported.status, exported.stderr)
	require.Zero(t, as(exported.stdout, "import", "/copy").status)
	got := as("", "acl", "/copy/a")
	text := acl(list).String()
	require.Equal(t, text+"\n", got.stdout, "the digest itself")
	require.Zero(t, as("", "acl", "/copy/a", text).status)
	require.Equal(t, "wrote 0 znodes\n", as(exported.stdout, "import", "/copy").stderr)
}
