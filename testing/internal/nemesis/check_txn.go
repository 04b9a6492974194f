// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// The servers' log has the order of the transactions that write, so none has to be searched. Each must have read
// what the log has before it, and have written all it was to write, once. A transaction that only reads must
// have read a state of the log. A server may be behind, but a client never goes back.

// txnRun is what is known of a transaction of a client.
type txnRun struct {
	client, name string
	program      program
	outcome      outcome // unknown as well if its process was killed before it knew
	read         string
	at           int64 // when it ended
	first, last  int   // the eras in which it began and ended
}

// txnRunsOf returns the transactions of a client, in the order in which they began.
func (r *roundReport) txnRunsOf(client string, spec lockSpec) (all []*txnRun, err error) {
	byName := make(map[string]*txnRun)
	for _, e := range r.events[client] {
		switch {
		case e.Lock != spec.Name:
		case e.Kind == planned:
			t := &txnRun{client: client, name: e.Owner, outcome: unknown, at: e.At, first: r.eraAt(e.At), last: len(r.eras) - 1}
			if err := json.Unmarshal([]byte(e.Value), &t.program); err != nil {
				return nil, fmt.Errorf("has recorded a program that cannot be read: %w", err)
			}
			byName[e.Owner], all = t, append(all, t)
		case e.Kind == transacted && byName[e.Owner] != nil:
			t := byName[e.Owner]
			t.outcome, t.read, t.at, t.last = e.Outcome, e.Value, e.At, r.eraAt(e.At)
		}
	}
	return all, nil
}

// txnStep is a state of the znodes, from the transaction that made it to the next step.
type txnStep struct {
	zxid  int64
	state txnState
	by    string // the name that it has written
}

// txnSteps returns the states of an era. doubted says that what no majority has was committed.
func (l *transactionLog) txnSteps(spec lockSpec, doubted bool) []txnStep {
	type write struct {
		logWrite
		place int
	}
	var writes []write
	for i, path := range txnPaths {
		for _, w := range l.writes[spec.path()+path] {
			writes = append(writes, write{w, i})
		}
		for _, w := range l.few.writes[spec.path()+path] {
			if doubted {
				writes = append(writes, write{w, i})
			}
		}
	}
	slices.SortStableFunc(writes, func(a, b write) int { return cmp.Compare(a.zxid, b.zxid) })
	steps := []txnStep{{}}
	for _, w := range writes {
		now := &steps[len(steps)-1]
		if now.zxid != w.zxid {
			steps = append(steps, txnStep{zxid: w.zxid, state: now.state})
			now = &steps[len(steps)-1]
		}
		now.state[w.place] = w.data // "" after a deletion
		now.by = cmp.Or(w.data, now.by)
	}
	return steps
}

// wrongTransactions finds transactions that no serial order explains.
func wrongTransactions(r *roundReport, spec lockSpec) (found []violation) {
	if r.log == nil {
		return nil
	}
	runs := make(map[string][]*txnRun)
	for client := range r.events {
		var err error
		if runs[client], err = r.txnRunsOf(client, spec); err != nil {
			return []violation{{promise: serializable, round: r, what: fmt.Sprintf("%s: %s %v", spec.Name, client, err)}}
		}
	}
	applied := make(map[string]bool) // in any era
	for i, e := range r.eras {
		own := &txnEra{round: r, spec: spec, era: i, applied: applied}
		own.judge(runs, e.log.txnSteps(spec, false))
		if len(own.found) > 0 {
			// What no majority has may have been committed nevertheless.
			doubted := &txnEra{round: r, spec: spec, era: i, applied: applied}
			if doubted.judge(runs, e.log.txnSteps(spec, true)); len(doubted.found) < len(own.found) {
				own = doubted
			}
		}
		found = append(found, own.found...)
	}
	return found
}

// txnEra judges the transactions of an era by its log.
type txnEra struct {
	round   *roundReport
	spec    lockSpec
	era     int
	steps   []txnStep
	places  map[string][]int // of the steps, by the names that they have written
	applied map[string]bool  // the names in the logs up to this one
	found   []violation
}

func (e *txnEra) addf(at int64, format string, args ...any) {
	e.found = append(e.found, violation{promise: serializable, round: e.round, at: at, what: e.spec.Name + ": " + fmt.Sprintf(format, args...)})
}

func (e *txnEra) judge(runs map[string][]*txnRun, steps []txnStep) {
	e.steps, e.places = steps, make(map[string][]int)
	for i, s := range steps {
		e.places[s.by] = append(e.places[s.by], i)
		e.applied[s.by] = true
	}
	for _, i := range e.places[""][1:] { // the first one is the beginning
		e.addf(0, "%#x has changed %v to %v, and is of no transaction", steps[i].zxid, steps[i-1].state, steps[i].state)
	}
	unknown := maps.Clone(e.places)
	delete(unknown, "")
	for _, client := range slices.Sorted(maps.Keys(runs)) {
		least := 0 // the oldest step that the client may read
		for _, t := range runs[client] {
			if t.first <= e.era && e.era <= t.last {
				delete(unknown, t.name)
				least = e.judgeOne(t, least)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		if i := unknown[name][0]; steps[i].zxid > e.round.eras[e.era].base {
			e.addf(0, "%#x is of %q, which no client has run", steps[i].zxid, name)
		}
	}
}

// judgeOne judges a transaction of a client that may read no older step than least, and returns the oldest that it may
// read afterwards. A restore may undo a transaction, which is then run again: what it has read is not judged.
func (e *txnEra) judgeOne(t *txnRun, least int) int {
	switch own := e.places[t.name]; {
	case len(own) > 1:
		e.addf(t.at, "%s was applied %d times", t.name, len(own))
	case len(own) > 0 && t.outcome == refused:
		e.addf(t.at, "%s failed, and was applied", t.name)
	case len(own) > 0:
		before, now := e.steps[own[0]-1].state, e.steps[own[0]].state
		read, next := t.program.on(before, t.name)
		if now != next {
			e.addf(t.at, "%s has made %v of %v, and was to make %v", t.name, now, before, next)
		}
		if t.outcome == accepted && t.first == t.last && read != t.read {
			e.addf(t.at, "%s has read %q, and replaced %v", t.name, t.read, before)
		}
		return max(least, own[0])
	case t.outcome != accepted || e.era != t.last:
	case len(t.program.Writes) > 0:
		if !e.applied[t.name] {
			e.addf(t.at, "%s was acknowledged, and no majority of servers has it", t.name)
		}
	case t.first == t.last:
		i := slices.IndexFunc(e.steps[least:], func(s txnStep) bool { read, _ := t.program.on(s.state, ""); return read == t.read })
		if i < 0 {
			e.addf(t.at, "%s has read %q, which there never was at one time after %v", t.name, t.read, e.steps[least].state)
			return least
		}
		return least + i
	}
	return least
}
