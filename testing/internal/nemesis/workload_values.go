package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/locks"
)

const (
	noLostIncrement   promise = "lost_increments"   // each acknowledged increment is in the value, with numbers of its own
	noDoubleIncrement promise = "double_increments" // the value has no more than that, and what is in doubt
)

// valueWorkloads are the recipes of packages atomic, queues and barriers.
var valueWorkloads = []workload{
	{
		name: "counter", workers: 1, least: 60, folders: noFolders,
		promises:      []promise{noLostIncrement, noDoubleIncrement},
		findAtServers: wrongCounts, done: incrementsOf, prepare: prepareCounter,
	},
	{
		name: "queue", workers: 1, least: 60, folders: noFolders,
		promises:      []promise{noLostItem, noDuplicate},
		findAtServers: wrongDeliveries, done: consumptionsOf, prepare: prepareQueue,
	},
	{
		name: "barrier", workers: 1, least: 20, folders: noFolders,
		promises:      []promise{noBarrierLeak},
		findAtServers: barrierLeaks, done: entriesOf, prepare: prepareBarrier,
	},
}

const (
	adding      eventKind = "adding"      // some goroutines begin to add to a counter; Token is how many
	incremented eventKind = "incremented" // one of them has ended: Token is the number after it, Value the one before
)

// goroutines is how many add to one counter of a process at a time, at most.
const goroutines = 6

// prepareCounter increments a counter, in several goroutines that share it. Some
// of them give up early. Some processes take a lock after a few collisions.
func prepareCounter(w *worker) (func(context.Context), error) {
	var opts []atomic.Option
	if w.random.IntN(2) == 0 {
		opts = append(opts, atomic.WithPromotedToLock(w.spec.path()+"-lock", 3, locks.WithErrorPolicy(w.spec.Policy)))
	}
	counter, err := atomic.NewDistributedAtomicLong(w.client.framework, w.spec.path(), opts...)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { w.increment(ctx, counter) }, nil
}

// increment is a turn at a counter.
func (w *worker) increment(ctx context.Context, counter *atomic.DistributedAtomicLong) {
	all := make([]context.Context, 1+w.random.IntN(goroutines))
	c := w.call(w.spec.Name, "", false)
	w.client.history.add(event{Kind: adding, Lock: w.spec.Name, Owner: c.id, Token: int64(len(all))})
	errs := make([]error, len(all))
	var adders sync.WaitGroup
	for i := range all {
		bounded, cancel := w.bounds(ctx)
		adders.Go(func() {
			defer cancel()
			value, err := counter.Increment(bounded)
			errs[i] = err
			w.client.history.add(event{
				Kind: incremented, Lock: w.spec.Name, Owner: c.id, Token: value.Post, Value: strconv.FormatInt(value.Pre, 10),
				Outcome: changed(err), Error: text(err),
			})
		})
	}
	adders.Wait()
	at := monotonic()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		c.failed(at, errs[i])
		return
	}
	c.ended(at, nil)
}

// changed is what the error of a change says of it.
func changed(err error) outcome {
	switch {
	case err == nil:
		return accepted
	case framework.OutcomeUnknown(err):
		return unknown
	default:
		return refused
	}
}

// countOf is how many events of a recipe were of a kind and accepted.
func (r *roundReport) countOf(spec lockSpec, kind eventKind) (n int) {
	for _, events := range r.events {
		for _, e := range events {
			if e.Kind == kind && e.Lock == spec.Name && e.Outcome == accepted {
				n++
			}
		}
	}
	return n
}

func incrementsOf(r *roundReport, spec lockSpec) int { return r.countOf(spec, incremented) }

// sessions are the clients that have had each session.
func (r *roundReport) sessions() map[int64]string {
	all := make(map[int64]string)
	for client, events := range r.events {
		for _, e := range events {
			if e.Kind == connected {
				all[e.Session] = client
			}
		}
	}
	return all
}

// applied splits the writes of a node that is never deleted into those that are
// in its last value, in their order, and those that are not. The version tells:
// each write is applied to the one with the version before it. A write that no
// majority has can be applied, if a server had it from another as a snapshot.
func (l *transactionLog) applied(node string) (in, out []logWrite) {
	last := slices.MaxFunc(slices.Concat(l.writes[node], []logWrite{{version: -1}}), func(a, b logWrite) int { return cmp.Compare(a.zxid, b.zxid) })
	all := slices.Concat(l.few.writes[node], l.writes[node])
	slices.SortStableFunc(all, func(a, b logWrite) int { return cmp.Compare(a.zxid, b.zxid) })
	version := last.version
	for _, w := range slices.Backward(all) {
		if w.zxid <= last.zxid && w.version == version {
			in = append(in, w)
			version--
			continue
		}
		out = append(out, w)
	}
	slices.Reverse(in)
	return in, out
}

// number is the value of a counter. Too few bytes for one are 0.
func (w logWrite) number() int64 {
	if len(w.data) < binary.Size(int64(0)) {
		return 0
	}
	return int64(binary.BigEndian.Uint64([]byte(w.data)))
}

// counting is what a client has asked of a counter.
type counting struct {
	asked, decided int     // increments, and how many of them are not in doubt
	done           []event // those that were acknowledged
}

// countings returns the counting of each client. What a killed process has asked is in
// doubt unless it has written down what became of it.
func countings(r *roundReport, spec lockSpec) map[string]*counting {
	all := make(map[string]*counting)
	for client, events := range r.events {
		c := &counting{}
		all[client] = c
		for _, e := range events {
			switch {
			case e.Lock != spec.Name:
			case e.Kind == adding:
				c.asked += int(e.Token)
			case e.Kind == incremented && e.Outcome != unknown:
				c.decided++
				if e.Outcome == accepted {
					c.done = append(c.done, e)
				}
			}
		}
	}
	return all
}

// tally is how the log accounts for the numbers of a counter.
type tally struct {
	round *roundReport
	spec  lockSpec
	out   []logWrite       // those that are not in the value
	last  int64            // the value
	by    map[int64]string // the clients that have counted the numbers that no increment has so far; "" is unknown
	of    map[int64]string // the clients of sessions
	found []violation
}

func (t *tally) addf(p promise, n int, at int64, format string, args ...any) {
	t.found = append(t.found, violation{promise: p, count: n, round: t.round, at: at, what: t.spec.Name + ": " + fmt.Sprintf(format, args...)})
}

// wrongCounts finds acknowledged increments that are not in the value, and
// numbers in it that no increment accounts for. A write of a client covers the
// numbers from the value before it to its own. Each of them is one acknowledged
// increment of that client, or one that is in doubt.
func wrongCounts(r *roundReport, spec lockSpec) []violation {
	if r.log == nil {
		return nil
	}
	in, out := r.log.applied(spec.path())
	t := &tally{round: r, spec: spec, out: out, by: make(map[int64]string), of: r.sessions()}
	all := countings(r, spec)
	asked := 0
	for _, c := range all {
		asked += c.asked
	}
	for _, w := range in {
		if more := w.number() - t.last; more > int64(asked) {
			t.addf(noDoubleIncrement, int(more), 0, "write %#x adds %d, of %d that were asked for", w.zxid, more, asked)
			return t.found
		}
		for n := t.last + 1; n <= w.number(); n++ {
			t.by[n] = t.of[w.session]
		}
		t.last = w.number()
	}
	for client, c := range all {
		for _, e := range c.done {
			t.account(client, e)
		}
	}
	t.surplus(all)
	return t.found
}

// account finds the number of an acknowledged increment. One that a client has
// written, and the servers have cut off their logs, is not the counter's fault.
func (t *tally) account(client string, e event) {
	by, covered := t.by[e.Token]
	cutOff := func(w logWrite) bool { return t.of[w.session] == client && w.number() >= e.Token }
	switch {
	case e.Value != strconv.FormatInt(e.Token-1, 10):
		t.addf(noLostIncrement, 1, e.At, "an increment of %s was from %s to %d", client, e.Value, e.Token)
	case covered && (by == client || by == ""):
		delete(t.by, e.Token)
	case !slices.ContainsFunc(t.out, cutOff):
		t.addf(noLostIncrement, 1, e.At, "the increment of %s to %d is not in the value %d, or another one has that number", client, e.Token, t.last)
	}
}

// surplus finds numbers that no acknowledged increment has, above those that are
// in doubt.
func (t *tally) surplus(all map[string]*counting) {
	doubts := 0
	for _, c := range all {
		doubts += c.asked - c.decided
	}
	free := make(map[string]int)
	for _, client := range t.by {
		free[client]++
	}
	for client, n := range free {
		own := doubts // of all, if the client is not known
		if client != "" {
			own = all[client].asked - all[client].decided
		}
		if n > own {
			t.addf(noDoubleIncrement, n-own, 0, "%d increments of client %q are in the value %d that it does not know of, and %d are in doubt",
				n, client, t.last, own)
		}
	}
}
