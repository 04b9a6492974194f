// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
)

// TestACLAsText, whatever its ids contain, and as JSON.
func TestACLAsText(t *testing.T) {
	list := acl{
		{Scheme: "x509", ID: `CN=a\,b,O="c",C=de`, Perms: framework.PermRead | framework.PermAdmin},
		{Scheme: "x509", ID: `ends with a backslash\`, Perms: 0},
		{Scheme: "ip", ID: "::1/128", Perms: framework.PermAll},
	}
	require.Equal(t, `x509:CN=a\\\,b\,O="c"\,C=de:ra,x509:ends with a backslash\\:,ip:::1/128:rwcda`, list.String())
	require.Contains(t, string(must.Get(json.Marshal(list))(t)), `[{"scheme":"x509","id":"CN=a\\,b,O=\"c\",C=de","perms":"ra"},`)
}
