// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/gocurator/curator/framework"
)

// perms are the letters of permissions, in the order of their bits.
const perms = "rwcda"

func permsText(bits int32) string {
	var letters strings.Builder
	for bit, letter := range perms {
		if bits&(1<<bit) != 0 {
			letters.WriteRune(letter)
		}
	}
	return letters.String()
}

// acl is an access control list. Its JSON is an array of entries.
type acl []framework.ACL

// aclEntry is an entry in JSON.
type aclEntry struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (a acl) MarshalJSON() ([]byte, error) {
	entries := make([]aclEntry, len(a))
	for i, e := range a {
		entries[i] = aclEntry{e.Scheme, e.ID, permsText(e.Perms)}
	}
	return json.Marshal(entries)
}

// escapes protect commas in ids, such as a subject of the scheme x509.
var escapes = strings.NewReplacer(`\`, `\\`, `,`, `\,`)

// String returns scheme:id:perms,... with a backslash before each comma and backslash of an id.
func (a acl) String() string {
	entries := make([]string, len(a))
	for i, e := range a {
		entries[i] = e.Scheme + ":" + escapes.Replace(e.ID) + ":" + permsText(e.Perms)
	}
	return strings.Join(entries, ",")
}

func verbACL(ctx context.Context, c *call) error {
	list, err := c.client.GetACL(ctx, c.args[0])
	if err != nil {
		return err
	}
	return c.say(acl(list), printable(acl(list).String()))
}
