// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"math/rand/v2"
)

// generator makes a program from a seed. The same seed gives the same program.
//
// It stays clear of where Apache ZooKeeper 3.8.0 is wrong and later versions, and this server, are right: a connection has
// watches of one mode only on a path, checkWatches is about a path that nobody else watches, who asks for exists may read
// the node (in a program with secrets nobody asks), and there is no create2 in a multi. It stays clear, too, of what
// 3.8.0 never answers (a check that succeeds), of what depends on chance (a request sent before a setACL is answered), and
// of requests that do half of what they ask and fail (lists of watches with a null).
type generator struct {
	*rand.Rand
	root    string
	clients []string
	secrets bool
	modes   map[string]int32 // of the watches of a client on a path, as "client path"
	away    map[string]bool  // clients that have lost their connections

	// blurred is set once the servers need not count the same watches: when a client has hung up, which a server need not
	// notice at once, or watches recursively, which 3.8.0 counts twice.
	blurred bool

	client string // whose action is being made
	model  model
}

// programLength is how many actions a program has.
const programLength = 40

// generate returns the program of a seed.
func generate(seed uint64) program {
	g := &generator{
		Rand:  rand.New(rand.NewPCG(seed, 0)),
		root:  fmt.Sprintf("/p%d", seed),
		modes: make(map[string]int32),
		away:  make(map[string]bool),
	}
	g.model = newModel(g.root)
	g.clients = []string{"a", "b", "c", "d"}[:2+g.IntN(3)]
	g.secrets = g.IntN(5) == 0
	p := program{root: g.root}
	for len(p.actions) < programLength {
		p.actions = append(p.actions, g.action())
	}
	return p
}

// action makes the next action.
func (g *generator) action() action {
	g.client = pick(g, g.clients...)
	if g.away[g.client] && g.IntN(8) > 0 {
		g.away[g.client] = false
		return action{client: g.client, does: reconnects}
	}
	a := action{client: g.client, does: asks}
	switch n := g.IntN(1000); {
	case n < 25:
		a.request = request{op: opClose, what: "closeSession", ends: true}
		g.model.close(g.client)
	case n < 50:
		a.does = pick(g, reconnects, reconnects, reconnects, shortTimeout, longTimeout, oldClient)
	case n < 60:
		a.does, g.blurred = hangsUp, true
	case n < 70 && !g.blurred:
		a.does = counts
	case n < 72:
		a.does = pick(g, wrongPassword, emptyPassword, wrongSession, futureZxid)
	case n < 82:
		a.request = g.ending()
	case n < 105:
		a.request = g.malformed()
	default:
		a.request = g.request()
		a.joined = g.IntN(3) == 0 && a.op != 100 && a.op != 102
		if g.IntN(50) == 0 && a.op != opPing {
			a.xid = pick[int32](g, -8, -4, -3, 0x7fffffff)
		}
	}
	g.away[g.client] = a.ends || a.does == hangsUp || a.does == wrongPassword || a.does == emptyPassword
	return a
}

// pick chooses one of a list.
func pick[T any](g *generator, list ...T) T {
	return list[g.IntN(len(list))]
}

// weighted is a maker of requests and how often it is chosen.
type weighted struct {
	weight int
	make   func(*generator) request
}

// requests is what clients ask for. Opcodes are told in replyFields.
var requests = []weighted{
	{16, func(g *generator) request { return g.create(1) }},
	{6, func(g *generator) request { return g.create(15) }},
	{3, func(g *generator) request { return g.create(19) }},
	{3, func(g *generator) request { return g.create(21) }},
	{11, (*generator).remove},
	{6, (*generator).exists},
	{7, func(g *generator) request { return g.read(4, "getData") }},
	{5, func(g *generator) request { return g.read(8, "getChildren") }},
	{5, func(g *generator) request { return g.read(12, "getChildren2") }},
	{9, (*generator).setData},
	{4, func(g *generator) request { return g.about(6, "getACL") }},
	{6, (*generator).setACL},
	{2, func(g *generator) request { return g.about(9, "sync") }},
	{2, (*generator).failingCheck},
	{10, (*generator).multi},
	{3, (*generator).multiRead},
	{3, (*generator).auth},
	{3, (*generator).setWatches},
	{5, (*generator).addWatch},
	{2, func(g *generator) request { return g.watchesOf(17, "checkWatches", g.private()) }},
	{3, func(g *generator) request { return g.watchesOf(18, "removeWatches", g.watched()) }},
	{2, func(g *generator) request { return g.about(103, "getEphemerals") }},
	{2, func(g *generator) request { return g.about(104, "getAllChildrenNumber") }},
	{1, func(*generator) request { return request{op: 107, what: "whoAmI"} }},
	{1, func(*generator) request { return request{op: opPing, what: "ping"} }},
	{1, (*generator).config},
	{1, (*generator).reconfig},
	{1, func(g *generator) request { return g.about(20, "deleteContainer") }},
	{1, func(g *generator) request { return g.about(102, "sasl") }},
}

// weights is the sum of what is in requests.
func weights() (sum int) {
	for _, w := range requests {
		sum += w.weight
	}
	return sum
}

func (g *generator) request() request {
	n := g.IntN(weights())
	for _, w := range requests {
		if n -= w.weight; n < 0 {
			return w.make(g)
		}
	}
	panic("unreachable: n is below the sum of the weights")
}
