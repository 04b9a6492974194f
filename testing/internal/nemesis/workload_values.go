// SPDX-License-Identifier: Apache-2.0

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
	doubts []int   // increments that were asked for up to the end of each era, and not decided by then
	done   []event // those that were acknowledged
}

// countings returns the counting of each client. What a killed process has asked is in
// doubt unless it has written down what became of it. What is under way when servers are restored is in doubt
// before, and may be repeated after.
func countings(r *roundReport, spec lockSpec) map[string]*counting {
	all := make(map[string]*counting)
	for client, events := range r.events {
		c := &counting{doubts: make([]int, len(r.eras))}
		all[client] = c
		for _, e := range events {
			asked := 0
			switch {
			case e.Lock != spec.Name:
			case e.Kind == adding:
				asked = int(e.Token)
			case e.Kind == incremented && e.Outcome != unknown:
				asked = -1
				if e.Outcome == accepted {
					c.done = append(c.done, e)
				}
			}
			for i := r.eraAt(e.At); i < len(c.doubts); i++ {
				c.doubts[i] += asked
			}
		}
	}
	return all
}

// tally is how the log of an era accounts for the numbers of a counter.
type tally struct {
	out  []logWrite         // those that are not in the value
	last int64              // the value
	by   map[int64]*counted // the numbers that no increment has so far
}

// counted is the write that has counted a number.
type counted struct {
	zxid   int64
	client string // "" is unknown
}

// tallies are the tallies of all eras.
type tallies struct {
	round *roundReport
	spec  lockSpec
	eras  []*tally
	of    map[int64]string // the clients of sessions
	found []violation
}

func (t *tallies) addf(p promise, n int, at int64, format string, args ...any) {
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
	t := &tallies{round: r, spec: spec, of: r.sessions()}
	all := countings(r, spec)
	asked := 0
	for _, c := range all {
		asked += len(c.done) + c.doubts[len(c.doubts)-1]
	}
	for _, e := range r.eras {
		if !t.read(e.log, asked) {
			return t.found
		}
	}
	for client, c := range all {
		for _, e := range c.done {
			t.account(client, e)
		}
	}
	for i := range t.eras {
		t.surplus(i, all)
	}
	return t.found
}

// read makes the tally of an era, and reports whether the numbers in its log can be increments.
func (t *tallies) read(log *transactionLog, asked int) bool {
	in, out := log.applied(t.spec.path())
	own := &tally{out: out, by: make(map[int64]*counted)}
	t.eras = append(t.eras, own)
	for _, w := range in {
		if more := w.number() - own.last; more > int64(asked) {
			t.addf(noDoubleIncrement, int(more), 0, "write %#x adds %d, of %d that were asked for", w.zxid, more, asked)
			return false
		}
		for n := own.last + 1; n <= w.number(); n++ {
			own.by[n] = &counted{zxid: w.zxid, client: t.of[w.session]}
		}
		own.last = w.number()
	}
	return true
}

// account finds the number of an acknowledged increment. One that a client has
// written, and the servers have cut off their logs, is not the counter's fault.
// What a backup had is in the logs of the eras after it, too.
func (t *tallies) account(client string, e event) {
	i := t.round.eraAt(e.At)
	own := t.eras[i]
	by, covered := own.by[e.Token]
	cutOff := func(w logWrite) bool { return t.of[w.session] == client && w.number() >= e.Token }
	switch {
	case e.Value != strconv.FormatInt(e.Token-1, 10):
		t.addf(noLostIncrement, 1, e.At, "an increment of %s was from %s to %d", client, e.Value, e.Token)
	case covered && (by.client == client || by.client == ""):
		for _, later := range t.eras[i:] {
			if same := later.by[e.Token]; same != nil && same.zxid == by.zxid {
				delete(later.by, e.Token)
			}
		}
	case !slices.ContainsFunc(own.out, cutOff):
		t.addf(noLostIncrement, 1, e.At, "the increment of %s to %d is not in the value %d, or another one has that number", client, e.Token, own.last)
	}
}

// surplus finds numbers in the log of an era that no acknowledged increment has, above those that were in doubt at
// its end.
func (t *tallies) surplus(i int, all map[string]*counting) {
	doubts := 0
	for _, c := range all {
		doubts += c.doubts[i]
	}
	free := make(map[string]int)
	for _, by := range t.eras[i].by {
		free[by.client]++
	}
	for client, n := range free {
		own := doubts // of all, if the client is not known
		if client != "" {
			own = all[client].doubts[i]
		}
		if n > own {
			t.addf(noDoubleIncrement, n-own, 0, "%d increments of client %q are in the value %d that it does not know of, and %d are in doubt",
				n, client, t.eras[i].last, own)
		}
	}
}
