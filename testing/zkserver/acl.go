// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"crypto/sha1" // the digest scheme of ZooKeeper is defined with it
	"encoding/base64"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Permissions, as bits of an ACL entry.
const (
	permRead   int32 = 1
	permWrite  int32 = 2
	permCreate int32 = 4
	permDelete int32 = 8
	permAdmin  int32 = 16
)

// authID is an identity: in an ACL the grantee, on a connection what its client has proved.
type authID struct {
	scheme, id string
	null       bool // the id is null, which no id of an accepted ACL is
}

// superUser is the identity for which no ACL counts.
var superUser = authID{scheme: "super"}

type aclEntry struct {
	perms int32
	id    authID
}

var anyone = authID{scheme: "world", id: "anyone"}

// openACL is the ACL of the nodes of a new server. Only the super user may write /zookeeper/config.
var (
	openACL     = []aclEntry{{perms: permRead | permWrite | permCreate | permDelete | permAdmin, id: anyone}}
	readOnlyACL = []aclEntry{{perms: permRead, id: anyone}}
)

// maxChecks bounds the comparisons of entries with identities that one request may cost: a request with many
// operations on long ACLs would stop the server for hours. Above the bound permissions are denied.
const maxChecks = 1 << 22

// allowed reports whether a client with these identities has one of the permissions perm. It takes what it costs from
// left, which is negative once it is used up.
func allowed(acl []aclEntry, perm int32, ids []authID, left *int) bool {
	if len(acl) == 0 || acl[0].id == anyone && acl[0].perms&perm != 0 || isSuper(ids) {
		return true
	}
	*left -= len(ids) // compared with the super user
	for _, a := range acl {
		if *left--; *left < 0 {
			return false
		}
		if a.perms&perm == 0 {
			continue
		}
		if a.id == anyone {
			return true
		}
		*left -= len(ids)
		if slices.ContainsFunc(ids, a.id.matches) {
			return true
		}
	}
	return false
}

func isSuper(ids []authID) bool {
	return slices.Contains(ids, superUser)
}

// matches reports whether an ACL entry for a grants its permissions to a client with the identity proved.
func (a authID) matches(proved authID) bool {
	if a.scheme != proved.scheme {
		return false
	}
	switch a.scheme {
	case "digest":
		return a.id == proved.id
	case "ip":
		network, ok := parseNetwork(a.id)
		addr, err := netip.ParseAddr(proved.id)
		return ok && err == nil && network.Contains(addr)
	case "sasl":
		return proved.id == "super" || a.id == proved.id
	}
	return false
}

// maxACL bounds the entries that one request can give its nodes: entries of the scheme auth multiply with the
// identities of their client. A request of 1 MiB has no room for more entries without that.
const maxACL = 1 << 17

// fixACL checks an ACL that a client wants to set and replaces each entry of the scheme auth by one for each identity
// the client has proved, as PrepRequestProcessor.fixupACL does. The request has given nodes granted entries before. Only
// some servers know the scheme sasl.
func fixACL(acl []aclEntry, ids []authID, granted int, sasl bool) ([]aclEntry, code) {
	var fixed []aclEntry
	seen := make(map[aclEntry]struct{}, min(len(acl), 8))
	for _, a := range acl {
		if _, twice := seen[a]; twice {
			continue
		}
		seen[a] = struct{}{}
		switch {
		case a.id.scheme == "sasl" && !sasl: // it has no provider of the scheme
			return nil, codeInvalidACL
		case a.id.null && a.id.trips():
			return nil, codeMarshalling
		case a.id == anyone:
			fixed = append(fixed, a)
		case a.id.scheme == "auth": // all identities that the client has proved, of which there must be one
			before := len(fixed)
			for _, id := range ids {
				if id.scheme == "digest" || id.scheme == "sasl" { // an address is not proved
					fixed = append(fixed, aclEntry{perms: a.perms, id: id})
				}
			}
			if len(fixed) == before || granted+len(fixed) > maxACL {
				return nil, codeInvalidACL
			}
		case a.id.valid():
			fixed = append(fixed, a)
		default:
			return nil, codeInvalidACL
		}
	}
	if len(fixed) == 0 {
		return nil, codeInvalidACL
	}
	return fixed, codeOK
}

// trips reports whether a is of a scheme in which ZooKeeper fails on a null id.
func (a authID) trips() bool {
	return a.scheme == "world" || a.scheme == "digest" || a.scheme == "ip" || a.scheme == "sasl"
}

// valid reports whether an id may stand in an ACL.
func (a authID) valid() bool {
	switch a.scheme {
	case "digest":
		_, hash, ok := strings.Cut(a.id, ":")
		return ok && hash != "" && !strings.Contains(hash, ":")
	case "ip":
		_, ok := parseNetwork(a.id)
		return ok
	case "sasl":
		return validSASL(a.id)
	}
	return false
}

// validSASL reports whether an id of the scheme sasl may stand in an ACL: it is one of Kerberos, or has no '@'.
func validSASL(id string) bool {
	name, realm, found := strings.Cut(id, "@")
	return !found || !strings.ContainsAny(realm, "/@") && strings.Count(name, "/") <= 1
}

// parseNetwork reads the id of the scheme ip: an address, or an address, a slash and a number of bits.
func parseNetwork(id string) (netip.Prefix, bool) {
	host, bits, cut := strings.Cut(id, "/")
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}, false
	}
	n := addr.BitLen()
	if cut {
		if n, err = strconv.Atoi(bits); err != nil {
			return netip.Prefix{}, false
		}
	}
	network := netip.PrefixFrom(addr, n)
	return network, network.IsValid()
}

// digestID is the identity that credentials "user:password" prove.
func digestID(credentials string) authID {
	user, _, _ := strings.Cut(credentials, ":")
	sum := sha1.Sum([]byte(credentials))
	return authID{scheme: "digest", id: user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// addressID is the identity that every connection has from its remote address; a connection that has none, such as
// one end of a net.Pipe, gets none.
func addressID(addr net.Addr) (authID, bool) {
	if addr == nil {
		return authID{}, false
	}
	parsed, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return authID{}, false
	}
	return authID{scheme: "ip", id: parsed.Addr().Unmap().WithZone("").String()}, true
}

// hideDigests returns acl as a client without the admin permission sees it: no hashes.
func hideDigests(acl []aclEntry) []aclEntry {
	hidden := slices.Clone(acl)
	for i, a := range hidden {
		if a.id.scheme == "digest" {
			user, _, _ := strings.Cut(a.id.id, ":")
			hidden[i].id.id = user + ":x"
		}
	}
	return hidden
}
