// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"crypto/sha1" // the digest scheme is defined with it
	"encoding/base64"
	"fmt"
	"strings"
)

// Credentials of the scheme digest that clients of programs prove.
const (
	alice = "alice:wonderland"
	bob   = "bob:builder"
)

// digestOf is the id that credentials prove.
func digestOf(credentials string) string {
	user, _, _ := strings.Cut(credentials, ":")
	sum := sha1.Sum([]byte(credentials))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// entry is an entry of an ACL.
type entry struct {
	perms      int32
	scheme, id string
}

// acl appends a vector of entries.
func (b body) entries(list ...entry) body {
	b = b.int(int32(len(list)))
	for _, e := range list {
		b = b.int(e.perms).str(e.scheme).str(e.id)
	}
	return b
}

// openTo lets everybody do everything, and the keeper too.
func openTo() body {
	return body{}.entries(entry{31, "world", "anyone"}, entry{31, "digest", digestOf(keeper)})
}

// acl is an ACL, mostly a valid one. The keeper may always do everything, and everybody may read but in a program with
// secrets.
func (g *generator) acl() request {
	if g.IntN(5) < 3 {
		return request{what: "open", body: body{}.open()}
	}
	if g.IntN(10) == 0 {
		return g.badACL()
	}
	keepers := entry{31, "digest", digestOf(keeper)}
	list := []entry{keepers}
	if !g.secrets || g.IntN(2) == 0 {
		list = append(list, entry{1 | g.Int32N(32), "world", "anyone"})
	}
	for range g.IntN(3) {
		perms := g.Int32N(32)
		list = append(list, pick(g,
			entry{perms, "digest", digestOf(alice)}, entry{perms, "digest", digestOf(bob)}, entry{perms, "auth", ""},
			entry{perms, "auth", ""}, entry{perms, "ip", "127.0.0.1"}, entry{perms, "ip", "127.0.0.0/8"},
			entry{perms, "ip", "10.0.0.0/8"}, keepers))
	}
	g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	var text []string
	for _, e := range list {
		name, _, _ := strings.Cut(e.id, ":")
		text = append(text, fmt.Sprintf("%d:%s:%s", e.perms, e.scheme, name))
	}
	return request{what: strings.Join(text, ","), body: body{}.entries(list...)}
}

// badACL is one that a server refuses.
func (g *generator) badACL() request {
	switch g.IntN(6) {
	case 0:
		return request{what: "null ACL", body: body{}.null()}
	case 1:
		return request{what: "ACL without a scheme", body: body{}.int(1).int(31).null().str("x")}
	case 2:
		scheme := pick(g, "world", "digest", "ip", "scheme") // auth would do
		return request{what: "ACL with nobody of scheme " + scheme, body: body{}.int(1).int(31).str(scheme).null()}
	}
	bad := pick(g, []entry{}, []entry{{31, "ip", "300.0.0.1"}}, []entry{{31, "ip", "127.0.0.1/33"}},
		[]entry{{31, "digest", "nohash"}}, []entry{{31, "digest", "a:b:c"}}, []entry{{31, "world", "nobody"}},
		[]entry{{31, "scheme", "x"}}, []entry{{31, "", ""}})
	return request{what: fmt.Sprintf("ACL %v", bad), body: body{}.entries(bad...)}
}
