// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// input is what a call of a recipe asks for, and output what it has answered.
type input struct {
	call     string
	arg, new int64
}

type output struct {
	pre, post int64
	done      bool // it has changed something, or found it
	unknown   bool // it may have been applied, now or later
}

// history is what several clients have asked and heard, in the order of a common clock.
type history struct {
	mu    sync.Mutex
	clock int64
	ops   []porcupine.Operation
}

func (h *history) tick() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	return h.clock
}

// record makes a call. One whose outcome is unknown has not ended when the history does.
func (h *history) record(client int, in input, made func() output) {
	began := h.tick()
	out := made()
	ended := h.tick()
	if out.unknown {
		ended = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: ended})
}

// modelOf makes a model of a step from a state to those that may follow. What is unknown may
// also leave the state as it is.
func modelOf[S comparable](start S, step func(s S, in input, out output) (next S, ok bool)) porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{start} },
		Step: func(state, in, out any) []any {
			s, answer := state.(S), out.(output)
			var next []any
			if answer.unknown {
				next = append(next, s)
			}
			if after, ok := step(s, in.(input), answer); ok {
				next = append(next, after)
			}
			return next
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v: %+v", in, out) },
	}
	return nondeterministic.ToModel()
}

// register is a value that is read, set, and set if it is another.
var register = modelOf(int64(0), func(s int64, in input, out output) (int64, bool) {
	switch in.call {
	case "get":
		return s, out.post == s
	case "set":
		return in.new, out.unknown || out.pre == s
	default: // compare and set
		if s != in.arg {
			return s, !out.done
		}
		return in.new, out.unknown || out.done
	}
})

// counter is a number to which others are added. Each addition tells what was there before.
var counter = modelOf(int64(0), func(s int64, in input, out output) (int64, bool) {
	if in.call == "get" {
		return s, out.post == s
	}
	return s + in.arg, out.unknown || out.pre == s && out.post == s+in.arg
})

// fifo is a queue: the items that are in it, in their order. The polls that are known to have
// taken an item rule out much of what would otherwise have to be tried: no other poll took the
// item, and items that were polled one after the other were offered in this order.
func fifo(polls map[int64]porcupine.Operation) porcupine.Model {
	isBefore := func(a, b int64) bool {
		first, known := polls[a]
		second, both := polls[b]
		return known && both && first.Return < second.Call
	}
	return modelOf("", func(s string, in input, out output) (string, bool) {
		if in.call == "offer" {
			for item := range strings.FieldsSeq(s) {
				if n, _ := strconv.ParseInt(item, 10, 64); isBefore(in.arg, n) {
					return s, false
				}
			}
			return s + strconv.FormatInt(in.arg, 10) + " ", true
		}
		item, rest, found := strings.Cut(s, " ")
		first, _ := strconv.ParseInt(item, 10, 64)
		_, known := polls[first]
		switch {
		case !found:
			return s, !out.done && !out.unknown
		case out.unknown:
			return rest, !known
		default:
			return rest, out.done && first == out.post
		}
	})
}

// TestModelsRefuseWhatNoRecipeMayDo: a check that cannot fail shows nothing.
func TestModelsRefuseWhatNoRecipeMayDo(t *testing.T) {
	done := func(in input, pre, post int64) porcupine.Operation {
		return porcupine.Operation{Input: in, Output: output{pre: pre, post: post, done: true}}
	}
	for name, c := range map[string]struct {
		model porcupine.Model
		ops   []porcupine.Operation
	}{
		"a lost increment":   {counter, []porcupine.Operation{done(input{call: "add", arg: 1}, 0, 1), done(input{call: "add", arg: 1}, 0, 1)}},
		"a double increment": {counter, []porcupine.Operation{done(input{call: "add", arg: 1}, 0, 1), done(input{call: "get"}, 0, 2)}},
		"a lost set":         {register, []porcupine.Operation{done(input{call: "set", new: 1}, 0, 1), done(input{call: "set", new: 2}, 0, 2)}},
		"a stale comparison": {register, []porcupine.Operation{done(input{call: "set", new: 1}, 0, 1), done(input{call: "cas", arg: 0, new: 2}, 0, 0)}},
		"a wrong order": {ops: []porcupine.Operation{
			done(input{call: "offer", arg: 1}, 0, 0), done(input{call: "offer", arg: 2}, 0, 0),
			done(input{call: "poll"}, 0, 2), done(input{call: "poll"}, 0, 1),
		}},
		"an item twice":    {ops: []porcupine.Operation{done(input{call: "offer", arg: 1}, 0, 0), done(input{call: "poll"}, 0, 1), done(input{call: "poll"}, 0, 1)}},
		"an item too soon": {ops: []porcupine.Operation{done(input{call: "poll"}, 0, 1), done(input{call: "offer", arg: 1}, 0, 0)}},
		"a lost item": {ops: []porcupine.Operation{
			done(input{call: "offer", arg: 1}, 0, 0), done(input{call: "offer", arg: 2}, 0, 0), done(input{call: "poll"}, 0, 2),
		}},
	} {
		for i := range c.ops {
			c.ops[i].Call, c.ops[i].Return = int64(2*i), int64(2*i+1)
		}
		g := &game{model: c.model, history: history{ops: c.ops}}
		if c.model.Step == nil { // a queue in order
			g.settle()
		}
		require.False(t, porcupine.CheckOperations(g.model, g.ops), name)
	}
}

const (
	players  = 3
	programs = 6 // of each recipe, each with faults of its own
	path     = "/recipes/one"
)

// programsOf plays random programs of several clients with a recipe, on fake time, and checks
// their histories against its model. One request of ten of the clients is lost, or its reply is.
func programsOf(t *testing.T, model porcupine.Model, play func(g *game)) {
	t.Helper()
	random := seeds.New(t)
	for n := range programs {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			seed := random.Uint64()
			synctest.Test(t, func(t *testing.T) {
				g := &game{t: t, model: model, server: zktest.NewServer(t, zkserver.WithoutListener()), seed: seed}
				for range players {
					g.clients = append(g.clients, zktest.Client(t, g.server))
				}
				faults := rand.New(rand.NewPCG(seed, 0))
				remove := g.server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op == zkserver.OpPing || r.Op == zkserver.OpCreateSession || faults.IntN(10) > 0 {
						return zkserver.Pass
					}
					return []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply}[faults.IntN(2)]
				})
				g.quiet = remove
				play(g)
				remove()
				if !porcupine.CheckOperations(g.model, g.ops) {
					slices.SortFunc(g.ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
					for _, op := range g.ops {
						t.Logf("%d: %d to %d: %s", op.ClientId, op.Call, op.Return, model.DescribeOperation(op.Input, op.Output))
					}
					t.Error("this is not what the recipe may do")
				}
			})
		})
	}
}

// game is one program.
type game struct {
	history

	t       *testing.T
	model   porcupine.Model
	server  *zkserver.Server
	clients []*framework.Framework
	seed    uint64
	quiet   func() // ends the faults
}

// each has every client make so many random calls.
func (g *game) each(calls int, turn func(random *rand.Rand, client int) (input, func() output)) {
	var all sync.WaitGroup
	for client := range g.clients {
		random := rand.New(rand.NewPCG(g.seed, uint64(client+1)))
		all.Go(func() {
			for range calls {
				in, made := turn(random, client)
				g.record(client, in, made)
			}
		})
	}
	all.Wait()
}

// answered is the answer of a call that may fail only in doubt.
func (g *game) answered(out output, err error) output {
	switch {
	case framework.OutcomeUnknown(err):
		return output{unknown: true}
	case err != nil:
		g.t.Errorf("a call has failed: %v", err)
	}
	return out
}

func TestModelsValueIsARegister(t *testing.T) {
	programsOf(t, register, func(g *game) {
		values := make([]*atomic.DistributedAtomicLong, players)
		for i, client := range g.clients {
			var err error
			values[i], err = atomic.NewDistributedAtomicLong(client, path)
			require.NoError(g.t, err)
		}
		_, err := values[0].Initialize(g.t.Context(), 0)
		g.answered(output{}, err)
		g.each(12, func(random *rand.Rand, client int) (input, func() output) {
			in, v := input{arg: random.Int64N(4), new: random.Int64N(4)}, values[client]
			switch random.IntN(3) {
			case 0:
				in.call = "get"
				return in, func() output { n, err := v.Get(g.t.Context()); return g.answered(output{post: n}, err) }
			case 1:
				in.call = "set"
				return in, func() output { n, err := v.TrySet(g.t.Context(), in.new); return g.answered(output{pre: n.Pre}, err) }
			default:
				in.call = "cas"
				return in, func() output {
					ok, err := v.CompareAndSet(g.t.Context(), in.arg, in.new)
					return g.answered(output{done: ok}, err)
				}
			}
		})
	})
}

func TestModelsCounterCounts(t *testing.T) {
	programsOf(t, counter, func(g *game) {
		counters := make([]*atomic.DistributedAtomicLong, players)
		for i, client := range g.clients {
			var err error
			counters[i], err = atomic.NewDistributedAtomicLong(client, path)
			require.NoError(g.t, err)
		}
		g.each(12, func(random *rand.Rand, client int) (input, func() output) {
			n := counters[client]
			if random.IntN(4) == 0 {
				return input{call: "get"}, func() output { now, err := n.Get(g.t.Context()); return g.answered(output{post: now}, err) }
			}
			in := input{call: "add", arg: random.Int64N(5)}
			return in, func() output {
				v, err := n.Add(g.t.Context(), in.arg)
				return g.answered(output{pre: v.Pre, post: v.Post}, err)
			}
		})
	})
}

func TestModelsSimpleQueueIsInOrder(t *testing.T) {
	programsOf(t, fifo(nil), func(g *game) {
		all := make([]*queues.SimpleDistributedQueue, players)
		for i, client := range g.clients {
			var err error
			all[i], err = queues.NewSimpleDistributedQueue(client, path)
			require.NoError(g.t, err)
		}
		poll := func(client int) output {
			data, err := all[client].Poll(g.t.Context())
			if errors.Is(err, queues.ErrEmpty) {
				return output{}
			}
			n, _ := strconv.ParseInt(string(data), 10, 64) // it may be unknown what it is
			return g.answered(output{done: true, post: n}, err)
		}
		var items int64
		g.each(12, func(random *rand.Rand, client int) (input, func() output) {
			if random.IntN(2) == 0 {
				g.mu.Lock()
				items++
				in := input{call: "offer", arg: items}
				g.mu.Unlock()
				return in, func() output {
					return g.answered(output{}, all[client].Offer(g.t.Context(), fmt.Append(nil, in.arg)))
				}
			}
			return input{call: "poll"}, func() output { return poll(client) }
		})
		g.quiet()
		for found := true; found; {
			g.record(0, input{call: "poll"}, func() output {
				out := poll(0)
				found = out.done
				return out
			})
		}
		g.settle()
	})
}

// settle uses what is known in the end, when the queue is empty: an item that has been polled
// was offered. Without this there may be too many possibilities to try them all.
func (g *game) settle() {
	polls := make(map[int64]porcupine.Operation)
	for _, op := range g.ops {
		if out := op.Output.(output); op.Input.(input).call == "poll" && out.done && !out.unknown {
			polls[out.post] = op
		}
	}
	for i, op := range g.ops {
		in, out := op.Input.(input), op.Output.(output)
		if _, polled := polls[in.arg]; polled && in.call == "offer" {
			out.unknown = false
			g.ops[i].Output = out
		}
	}
	g.model = fifo(polls)
}
