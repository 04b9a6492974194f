// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

// TestACLsSurviveAsJSON, whatever their ids contain.
func TestACLsSurviveAsJSON(t *testing.T) {
	list := acl{
		{Scheme: "x509", ID: `CN=a\,b,O="c",C=de`, Perms: framework.PermRead | framework.PermAdmin},
		{Scheme: "x509", ID: `ends with a backslash\`, Perms: 0},
		{Scheme: "ip", ID: "::1/128", Perms: framework.PermAll},
	}
	require.Equal(t, `x509:CN=a\\\,b\,O="c"\,C=de:ra,x509:ends with a backslash\\:,ip:::1/128:rwcda`, list.String())
	text, err := json.Marshal(record{ACL: list})
	require.NoError(t, err)
	require.Contains(t, string(text), `"acl":[{"scheme":"x509","id":"CN=a\\,b,O=\"c\",C=de","perms":"ra"},`)
	var r record
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, list, r.ACL)
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
< {"path":"","data":"","acl":[{"scheme":"world","id":"anyone","perms":"rwcda"}]}
< {"path":"/a","data":"","acl":[{"scheme":"digest","id":"user:x","perms":"rwcda"}]}
[1] curatorctl: record 2: *ADMIN permission is missing*
$ import /copy
< {"path":"","data":"","acl":[]}
[1] curatorctl: record 1: no access control list
$ acl /from
world:anyone:rwcda
$ ls
from
zookeeper
`)

	as := func(stdin string, args ...string) outcome {
		env := map[string]string{"CURATOR_SERVERS": server.Addr(), "CURATOR_AUTH": "digest:us,er:password"}
		return program{stdin: strings.NewReader(stdin)}.in(t, env, args...)
	}
	exported := as("", "export", "/from")
	require.Zero(t, exported.status, exported.stderr)
	require.Zero(t, as(exported.stdout, "import", "/copy").status)
	got := as("", "acl", "/copy/a")
	require.Equal(t, acl(list).String()+"\n", got.stdout, "the digest itself")
	require.Equal(t, "wrote 0 znodes\n", as(exported.stdout, "import", "/copy").stderr)
}
