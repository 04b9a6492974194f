// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

func parsePerms(letters string) (bits int32, err error) {
	for _, letter := range letters {
		bit := strings.IndexRune(perms, letter)
		if bit < 0 {
			return 0, fmt.Errorf("permission %q, expected some of %s", letter, perms)
		}
		bits |= 1 << bit
	}
	return bits, nil
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

// UnmarshalJSON implements [json.Unmarshaler].
func (a *acl) UnmarshalJSON(data []byte) error {
	var entries []aclEntry
	if err := json.Unmarshal(data, &entries); err != nil {
		return err
	}
	*a = nil
	for _, e := range entries {
		bits, err := parsePerms(e.Perms)
		if err != nil {
			return err
		}
		*a = append(*a, framework.ACL{Scheme: e.Scheme, ID: e.ID, Perms: bits})
	}
	return nil
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

// errMasked refuses a list that would lock out those whose digests it hides.
var errMasked = errors.New("its digests end in :x, which masks them: the ADMIN permission is missing where the list was read")

// isMasked reports whether the server has masked a digest, as it does for clients that may not
// change the list. No digest is a plain x.
func (a acl) isMasked() bool {
	for _, e := range a {
		if e.Scheme == "digest" && strings.HasSuffix(e.ID, ":x") {
			return true
		}
	}
	return false
}

// validate returns an error unless a znode may get the list.
func (a acl) validate() error {
	switch {
	case len(a) == 0:
		return errors.New("no access control list")
	case a.isMasked():
		return errMasked
	default:
		return nil
	}
}

// wholeACL reads a list as a copy must have it.
func (c *call) wholeACL(ctx context.Context, path string) (acl, error) {
	list, err := c.client.GetACL(ctx, path)
	switch {
	case err != nil:
		return nil, err
	case acl(list).isMasked():
		return nil, &exit{status: exitNoPerm, err: fmt.Errorf("access control list of %s: %w", path, errMasked)}
	default:
		return list, nil
	}
}

func verbACL(ctx context.Context, c *call) error {
	list, err := c.client.GetACL(ctx, c.args[0])
	if err != nil {
		return err
	}
	return c.say(acl(list), printable(acl(list).String()))
}
