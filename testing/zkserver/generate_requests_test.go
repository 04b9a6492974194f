// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// about is a request that has nothing but a path.
func (g *generator) about(op int32, name string) request {
	p := g.node()
	return request{op: op, what: fmt.Sprintf("%s %q", name, p), body: body{}.str(p)}
}

func (g *generator) create(op int32) request {
	flags := pick[int32](g, 0, 0, 0, 0, 1, 1, 2, 3, 4)
	switch {
	case op == 19:
		flags = pick[int32](g, 4, 4, 4, 0, 2)
	case op == 21:
		flags = pick[int32](g, 5, 5, 5, 6, 6, 0, 2)
	case g.IntN(60) == 0:
		flags = pick[int32](g, -1, 5, 6, 7, 100)
	}
	p, content, acl := g.fresh(flags == 2 || flags == 3 || flags == 6), g.content(), g.acl()
	name := map[int32]string{1: "create", 15: "create2", 19: "createContainer", 21: "createTTL"}[op]
	r := request{op: op, what: fmt.Sprintf("%s %q %s %s flags %d", name, p, textOf(content), acl.what, flags)}
	r.body = body{}.str(p).nullable(content).join(acl.body).int(flags)
	g.made(p, flags)
	if op == 21 {
		ttl := pick[int64](g, 100_000, 100_000, 100_000, 1<<40-1, 0, 1<<40)
		r.what = fmt.Sprintf("%s ttl %d", r.what, ttl)
		r.body = r.body.long(ttl)
	}
	return r
}

// remove spares the root, without which a program would have nothing left to do.
func (g *generator) remove() request {
	p, version := g.leaf(), g.version()
	return request{op: 2, what: fmt.Sprintf("delete %q %d", p, version), body: body{}.str(p).int(version)}
}

func (g *generator) setData() request {
	p, content, version := g.own(), g.content(), g.version()
	return request{
		op: 5, what: fmt.Sprintf("setData %q %s %d", p, textOf(content), version),
		body: body{}.str(p).nullable(content).int(version),
	}
}

func (g *generator) setACL() request {
	p, acl, version := g.own(), g.acl(), g.version()
	return request{
		op: 7, what: fmt.Sprintf("setACL %q %s %d", p, acl.what, version),
		body: body{}.str(p).join(acl.body).int(version),
	}
}

func (g *generator) check() request {
	p, version := g.node(), g.version()
	return request{op: 13, what: fmt.Sprintf("check %q %d", p, version), body: body{}.str(p).int(version)}
}

// failingCheck is a check outside of a multi. 3.8.0 never answers one that succeeds.
func (g *generator) failingCheck() request {
	p := g.node()
	return request{op: 13, what: fmt.Sprintf("check %q 1000", p), body: body{}.str(p).int(1000)}
}

func (g *generator) exists() request {
	if g.secrets {
		return g.read(4, "getData")
	}
	return g.read(3, "exists")
}

// read is a request that may set a watch.
func (g *generator) read(op int32, name string) request {
	p := g.node()
	watch := g.IntN(3) > 0 && g.mayWatch(p, standardWatch)
	return request{op: op, what: fmt.Sprintf("%s %q watch %t", name, p, watch), body: body{}.str(p).flag(watch)}
}

// Modes of watches: two of addWatch, and one beside them.
const (
	standardWatch   = -1
	persistentWatch = 0
	recursiveWatch  = 1
)

// mayWatch tells whether the client may have a watch of this mode on p. The first one decides.
func (g *generator) mayWatch(p string, mode int32) bool {
	key := g.client + " " + p
	if has, ok := g.modes[key]; ok {
		return has == mode
	}
	g.modes[key] = mode
	g.blurred = g.blurred || mode == recursiveWatch
	return true
}

func (g *generator) addWatch() request {
	p, mode := g.node(), pick[int32](g, persistentWatch, recursiveWatch)
	if g.IntN(20) == 0 {
		mode = pick[int32](g, 2, -1)
	} else if !g.mayWatch(p, mode) {
		return g.read(4, "getData")
	}
	return request{op: 106, what: fmt.Sprintf("addWatch %q mode %d", p, mode), body: body{}.str(p).int(mode)}
}

// watched is a path that the client may have a watch on.
func (g *generator) watched() string {
	var list []string
	for key := range g.modes {
		if client, p, _ := strings.Cut(key, " "); client == g.client {
			list = append(list, p)
		}
	}
	if len(list) == 0 || g.IntN(4) == 0 {
		return g.node()
	}
	slices.Sort(list)
	return pick(g, list...)
}

// watchesOf is checkWatches or removeWatches. Of a watch that stays only the type any is known to 3.8.
func (g *generator) watchesOf(op int32, name, p string) request {
	kind := int32(3)
	if mode, ok := g.modes[g.client+" "+p]; !ok || mode == standardWatch {
		kind = pick[int32](g, 1, 1, 2, 2, 2, 3, 3, 3, 0, 9)
	}
	return request{op: op, what: fmt.Sprintf("%s %q type %d", name, p, kind), body: body{}.str(p).int(kind)}
}

func (g *generator) setWatches() request {
	since := pick[int64](g, 0, 5, 10, 20, 1000)
	r := request{op: pick[int32](g, 101, 105), since: &since, what: "setWatches"}
	modes := []int32{standardWatch, standardWatch, standardWatch}
	if r.op == 105 {
		r.what, modes = "setWatches2", append(modes, persistentWatch, recursiveWatch)
	}
	for _, mode := range modes {
		var list []string
		for range g.IntN(3) {
			if p := g.node(); g.mayWatch(p, mode) {
				list = append(list, p)
			}
		}
		r.what = fmt.Sprintf("%s %q", r.what, list)
		r.body = r.body.strs(list...)
	}
	return r
}

func (g *generator) multi() request {
	r := request{op: 14, what: "multi"}
	for range g.IntN(5) {
		r.parts = append(r.parts, g.part())
	}
	if g.IntN(40) == 0 {
		r.parts = append(r.parts, request{op: 99, what: "op 99", body: body{}.str(g.own())})
	}
	if g.IntN(40) == 0 {
		r.parts = append(r.parts, g.read(4, "getData"))
	}
	return r
}

// part is an operation of a multi. It is never create2, which 3.8.0 fails on there.
func (g *generator) part() request {
	switch g.IntN(5) {
	case 0:
		return g.remove()
	case 1:
		return g.setData()
	case 2:
		return g.check()
	default:
		return g.create(pick[int32](g, 1, 1, 1, 19, 21))
	}
}

func (g *generator) multiRead() request {
	r := request{op: 22, what: "multiRead"}
	for range g.IntN(4) {
		p := g.node()
		part := request{op: 4, what: fmt.Sprintf("getData %q", p), body: body{}.str(p).flag(g.IntN(2) == 0)}
		if g.IntN(2) == 0 {
			part.op, part.what = 8, fmt.Sprintf("getChildren %q", p)
		}
		r.parts = append(r.parts, part)
	}
	if g.IntN(20) == 0 && len(r.parts) > 0 { // of writes alone, 3.8.0 answers with an error and a body
		r.parts = append(r.parts, g.setData())
	}
	return r
}

func (g *generator) auth() request {
	who := pick(g, alice, alice, bob, bob, "plain", "a:b:c", "")
	r := request{op: 100, what: "auth digest " + who, body: body{}.int(0).str("digest").str(who)}
	if g.IntN(20) == 0 {
		r = request{op: 100, what: "auth ip", body: body{}.int(0).str("ip").str("")}
	}
	return r
}

func (g *generator) config() request {
	return request{op: 4, what: "getData of the config", body: body{}.str("/zookeeper/config").flag(false)}
}

func (g *generator) reconfig() request {
	return request{op: 16, what: "reconfig", body: body{}.str("").str("").str("").long(-1)}
}

// ending is a request that costs the connection.
func (g *generator) ending() request {
	switch g.IntN(6) {
	case 0:
		r := pick(g, g.auth(), g.about(102, "sasl"))
		n := g.IntN(len(r.body.b))
		return request{op: r.op, what: fmt.Sprintf("%s, cut after %d bytes", r.what, n), body: body{r.body.b[:n]}, ends: true}
	case 1, 2:
		scheme := pick(g, "world", "nosuch", "")
		return request{op: 100, what: "auth scheme " + scheme, body: body{}.int(0).str(scheme).str("x"), ends: true}
	}
	op := pick[int32](g, 0, 10, 23, 24, 99, 108, 1000, -1, -2, -100)
	return request{op: op, what: fmt.Sprint("opcode ", op), body: body{}.str(g.own()), ends: true}
}

// malformed is a request that cannot be read, or that has too many bytes.
func (g *generator) malformed() request {
	r := g.request()
	for r.op == 100 || r.op == 102 || r.op == opPing || r.op == 107 {
		r = g.request()
	}
	b := slices.Clone(r.encode(0).b)
	what := r.String()
	kinds := 5
	switch r.op {
	case 1, 7, 14, 15, 19, 21:
		kinds = 3 // nothing within an ACL: the keeper has to stay in it
	case 101, 105:
		kinds = 2 // of lists of watches, ZooKeeper sets those that come before a null
	}
	r = request{op: r.op}
	switch g.IntN(kinds) {
	case 0:
		n := g.IntN(len(b))
		r.body, r.what = body{b[:n]}, fmt.Sprintf("%s, cut after %d bytes", what, n)
	case 1:
		r.body, r.what = body{append(b, "junk"...)}, what+", with junk"
	case 2:
		length := g.length()
		r.body, r.what = body{append(body{}.int(length).b, b[4:]...)}, fmt.Sprintf("%s, %d first", what, length)
	default:
		n, length := pick(g, lengthsIn(b)...), g.length()
		copy(b[n:], body{}.int(length).b)
		r.body, r.what = body{b}, fmt.Sprintf("%s, %d at %d", what, length, n)
	}
	return r
}

// lengthsIn finds where a body may have lengths. It finds some other numbers too, but nothing within a string: servers
// need not agree on what is no UTF-8.
func lengthsIn(b []byte) []int {
	list := []int{0}
	for i := range len(b) - 3 {
		if binary.BigEndian.Uint32(b[i:]) <= 100 {
			list = append(list, i)
		}
	}
	return list
}

// length is one that no string has.
func (g *generator) length() int32 {
	return pick[int32](g, -1, -1, -1, -2, -1<<31, 1<<31-1, 1<<20, 1<<16)
}
