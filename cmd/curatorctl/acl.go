// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha1" //nolint:gosec // only its size: ZooKeeper's digests are of it
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
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
	Perms  string `json:"perms"`
}

// MarshalJSON implements [json.Marshaler].
func (a acl) MarshalJSON() ([]byte, error) {
	entries := make([]aclEntry, len(a))
	for i, e := range a {
		entries[i] = aclEntry{e.Scheme, e.ID, permsText(e.Perms)}
	}
	return json.Marshal(entries)
}

// UnmarshalJSON implements [json.Unmarshaler]. It takes the text form too, for records that are
// written by hand.
func (a *acl) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		list, err := parseACL(text)
		*a = list
		return err
	}
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

// splitEntries cuts a text at its commas and takes the backslashes of escapes away.
func splitEntries(text string) []string {
	var entries []string
	var entry strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == ',' || text[i+1] == '\\'):
			i++
			entry.WriteByte(text[i])
		case text[i] == ',':
			entries = append(entries, entry.String())
			entry.Reset()
		default:
			entry.WriteByte(text[i])
		}
	}
	return append(entries, entry.String())
}

// parseACL reads what String writes.
func parseACL(text string) (acl, error) {
	var list acl
	for _, entry := range splitEntries(text) {
		scheme, rest, _ := strings.Cut(entry, ":")
		at := strings.LastIndex(rest, ":") // an id may have colons
		if at < 0 || scheme == "" {
			return nil, fmt.Errorf("%q, expected scheme:id:perms", entry)
		}
		bits, err := parsePerms(rest[at+1:])
		if err != nil {
			return nil, err
		}
		list = append(list, framework.ACL{Scheme: scheme, ID: rest[:at], Perms: bits})
	}
	return list, nil
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

// givenACL reads a list of the command line. Entries without a permission, which a server may have, are slips there.
func givenACL(text string) (acl, error) {
	list, err := parseACL(text)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.Perms == 0 {
			return nil, fmt.Errorf("%q without permissions, expected some of %s", acl{e}, perms)
		}
		// A server would store the text, and no password would fit it.
		if user, digest, _ := strings.Cut(e.ID, ":"); e.Scheme == "digest" && digest != "x" && !isDigest(digest) {
			return nil, fmt.Errorf("the digest of user %q is none: expected 28 characters, the SHA-1 of user:password in base64, "+
				"or auth::%s for the user of CURATOR_AUTH", user, permsText(e.Perms))
		}
	}
	return list, list.validate()
}

// isDigest reports whether a text is what a server makes of a user and a password.
func isDigest(text string) bool {
	hash, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(hash) == sha1.Size
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

func verbACL(fs *flag.FlagSet) func(context.Context, *call) error {
	recursive := fs.Bool("r", false, "set the list of the znodes below it, too")
	yes := fs.Bool("yes", false, "do it, with -r")
	return func(ctx context.Context, c *call) error {
		if *recursive && len(c.args) < 2 {
			return usage("acl: -r without a list, expected scheme:id:perms,...")
		}
		if len(c.args) == 2 {
			list, err := givenACL(c.args[1])
			if err != nil {
				return usage("acl: %w", err)
			}
			if *recursive {
				return c.setAll(ctx, c.args[0], list, *yes)
			}
			ctx, cancel := c.limited(ctx)
			defer cancel()
			return c.client.SetACL(ctx, c.args[0], list)
		}
		ctx, cancel := c.limited(ctx)
		defer cancel()
		list, err := c.client.GetACL(ctx, c.args[0])
		if err != nil {
			return err
		}
		if c.output == "json" {
			return c.json(acl(list))
		}
		return c.println(printable(acl(list).String()))
	}
}

// setAll sets the list of a subtree, from below: a list without the permission to read is set last.
func (c *call) setAll(ctx context.Context, root string, list acl, yes bool) error {
	nodes, err := inspect.Tree(ctx, c.client, root)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(nodes, func(z inspect.Znode) bool { return z.Err != nil }); i >= 0 {
		return fmt.Errorf("what is below %s is not known, nothing was done: %w", nodes[i].Path, nodes[i].Err)
	}
	c.complainf("sets the lists of %s at %s and below\n", znodes(len(nodes)), printable(root))
	if !yes {
		return usage("acl: nothing was done: -yes is missing")
	}
	progress := c.newProgress("changed", len(nodes))
	for _, z := range slices.Backward(nodes) {
		if err := c.client.SetACL(ctx, z.Path, list); err != nil && !errors.Is(err, framework.ErrNoNode) {
			return progress.finish(ctx, err)
		}
		progress.add()
	}
	return progress.finish(ctx, nil)
}
