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
		wrong := r.wrongInEra(spec, i, runs, e.log.txnSteps(spec, false), applied)
		if len(wrong) > 0 {
			// What no majority has may have been committed nevertheless.
			doubted := r.wrongInEra(spec, i, runs, e.log.txnSteps(spec, true), applied)
			wrong = slices.MinFunc([][]violation{wrong, doubted}, func(a, b []violation) int { return cmp.Compare(len(a), len(b)) })
		}
		found = append(found, wrong...)
	}
	return found
}

// wrongInEra is wrongTransactions for the log of one era. It adds to applied what the log has.
func (r *roundReport) wrongInEra(spec lockSpec, era int, runs map[string][]*txnRun, steps []txnStep, applied map[string]bool) (found []violation) {
	add := func(at int64, format string, args ...any) {
		found = append(found, violation{promise: serializable, round: r, at: at, what: spec.Name + ": " + fmt.Sprintf(format, args...)})
	}
	places := make(map[string][]int)
	for i, s := range steps {
		places[s.by] = append(places[s.by], i)
		applied[s.by] = true
	}
	for _, i := range places[""][1:] { // the first one is the beginning
		add(0, "%#x has changed %v to %v, and is of no transaction", steps[i].zxid, steps[i-1].state, steps[i].state)
	}
	for _, client := range slices.Sorted(maps.Keys(runs)) {
		least := 0 // the oldest step that the client may read
		for _, t := range runs[client] {
			if era < t.first || era > t.last {
				continue
			}
			own := places[t.name]
			delete(places, t.name)
			switch {
			case len(own) > 1:
				add(t.at, "%s was applied %d times", t.name, len(own))
			case len(own) > 0 && t.outcome == refused:
				add(t.at, "%s failed, and was applied", t.name)
			case len(own) > 0:
				before, now := steps[own[0]-1].state, steps[own[0]].state
				read, next := t.program.on(before, t.name)
				if now != next {
					add(t.at, "%s has made %v of %v, and was to make %v", t.name, now, before, next)
				}
				// A restore may have undone it, and it was then run again.
				if t.outcome == accepted && t.first == t.last && read != t.read {
					add(t.at, "%s has read %q, and replaced %v", t.name, t.read, before)
				}
				least = max(least, own[0])
			case t.outcome != accepted || era != t.last:
			case len(t.program.Writes) > 0:
				if !applied[t.name] {
					add(t.at, "%s was acknowledged, and no majority of servers has it", t.name)
				}
			case t.first == t.last:
				i := slices.IndexFunc(steps[least:], func(s txnStep) bool { read, _ := t.program.on(s.state, ""); return read == t.read })
				if i < 0 {
					add(t.at, "%s has read %q, which there never was at one time after %v", t.name, t.read, steps[least].state)
					continue
				}
				least += i
			}
		}
	}
	delete(places, "")
	for _, name := range slices.Sorted(maps.Keys(places)) {
		if i := places[name][0]; steps[i].zxid > r.eras[era].base {
			add(0, "%#x is of %q, which no client has run", steps[i].zxid, name)
		}
	}
	return found
}
