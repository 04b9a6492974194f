// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"slices"
	"strings"
)

// program is what a few clients do, one after the other, below a node of its own.
type program struct {
	root    string
	actions []action
}

// action is one thing that one client does.
type action struct {
	client string
	does   deed
	joined bool // a request that does not wait for the replies to the requests before it
	request
}

// deed is the kind of an action. A client connects by itself before its first request.
type deed string

const (
	asks          deed = "asks"
	reconnects    deed = "reconnects"                         // with a new session if it has none
	hangsUp       deed = "hangs up"                           // without closing its session
	wrongPassword deed = "reconnects with a wrong password"   // which ends its connection
	emptyPassword deed = "reconnects with an empty password"  // likewise
	wrongSession  deed = "reconnects with another session id" // and keeps its connection
	futureZxid    deed = "reconnects from the future"         // and keeps its connection
	shortTimeout  deed = "reconnects with a timeout of 1 ms"
	longTimeout   deed = "reconnects with the longest timeout"
	counts        deed = "has mntr count"
	oldClient     deed = "reconnects as a client that does not know of read-only servers"
)

// request is a request and what it says in words.
type request struct {
	op    int32
	xid   int32 // 0 for the next of its connection
	body  body
	what  string
	parts []request // of a multi or a multiRead, which has no other body
	since *int64    // zxid that goes before body, as an offset from that of the program's root
	ends  bool      // the server ends the connection after its answer
}

// encode returns the fields of the request in a program whose root was created with the zxid base.
func (r request) encode(base int64) body {
	switch {
	case r.since != nil:
		return body{}.long(base + *r.since).join(r.body)
	case r.op == 14 || r.op == 22:
		return multiOf(r.operations()...).join(r.body)
	}
	return r.body
}

// operations are the parts as multiOf takes them.
func (r request) operations() []any {
	var list []any
	for _, part := range r.parts {
		list = append(list, int(part.op), part.body)
	}
	return list
}

// String is the request in words: its name or number, and its fields.
func (r request) String() string {
	text := r.what
	if r.since != nil {
		text = fmt.Sprintf("%s since %+d", text, *r.since)
	}
	if r.xid != 0 {
		text = fmt.Sprintf("%s xid %d", text, r.xid)
	}
	if len(r.parts) == 0 {
		return text
	}
	var parts []string
	for _, part := range r.parts {
		parts = append(parts, part.String())
	}
	return text + " [" + strings.Join(parts, "; ") + "]"
}

func (a action) String() string {
	switch {
	case a.does != asks:
		return fmt.Sprintf("%s %s", a.client, a.does)
	case a.joined:
		return fmt.Sprintf("%s   and: %s", a.client, a.request)
	}
	return fmt.Sprintf("%s asks: %s", a.client, a.request)
}

func (p program) String() string {
	var b strings.Builder
	for i, a := range p.actions {
		fmt.Fprintf(&b, "%3d %s\n", i, a)
	}
	return b.String()
}

// batches groups the actions into what is done at once: a request and those joined to it.
func (p program) batches() [][]action {
	var list [][]action
	for i, a := range p.actions {
		if last := len(list) - 1; i > 0 && a.follows(p.actions[i-1]) {
			list[last] = append(list[last], a)
		} else {
			list = append(list, []action{a})
		}
	}
	return list
}

// follows tells whether a can be sent before what came just before it is answered. After setACL nothing can: until
// ZooKeeper has applied one, it may check the next write by the ACL that was there before.
func (a action) follows(before action) bool {
	return a.joined && a.does == asks && before.does == asks && a.client == before.client && !before.ends && !a.ends &&
		before.op != opSetACL
}

// without returns p less n actions from number i on.
func (p program) without(i, n int) program {
	p.actions = slices.Delete(slices.Clone(p.actions), i, i+n)
	return p
}

// with returns p with another action as number i.
func (p program) with(i int, a action) program {
	p.actions = slices.Clone(p.actions)
	p.actions[i] = a
	return p
}
