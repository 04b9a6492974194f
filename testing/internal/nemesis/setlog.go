// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
)

// setLog is what was written to the guarded sets, by the log of the servers.
type setLog struct {
	parts    map[string][]setWrite // what was written to each znode, in the order of the log
	data     map[string]string     // that each has
	appended map[string]setPlace   // where each value was written for the first time
}

// setWrite is what a transaction did to a part of a set.
type setWrite struct {
	version int32  // the leader gave it: one above the version of the data that the leader had
	newest  string // the value that was appended, if any was

	// values are all in the part, unless they are those that were there before, and the newest.
	values []string
}

// setPlace is one of the writes.
type setPlace struct {
	part  string
	index int
}

func newSetLog() setLog {
	return setLog{parts: make(map[string][]setWrite), data: make(map[string]string), appended: make(map[string]setPlace)}
}

// write notes what a transaction wrote to a znode, if the znode is part of a set. A client that appends
// a value writes it last, on a line of its own.
func (l *setLog) write(node string, version int32, data []byte) {
	if !strings.HasPrefix(node, setsFolder) {
		return
	}
	before, now := l.data[node], string(data)
	values := strings.Fields(now)
	w := setWrite{version: version}
	if len(values) > 0 {
		w.newest = strings.Clone(values[len(values)-1]) // and not the whole text behind it
		if _, known := l.appended[w.newest]; !known {
			l.appended[w.newest] = setPlace{part: node, index: len(l.parts[node])}
		}
	}
	if now != before+w.newest+"\n" {
		w.values = values
	}
	l.parts[node], l.data[node] = append(l.parts[node], w), now
}

// forgotten reports whether the servers have lost a value that is not there in the end. They have if a
// majority has it in its logs, and then, by these logs,
//   - a leader wrote with a version that shows that it did not have the value, or
//   - a write without the value was based on what an earlier leader had forgotten, or
//   - no client has ever written anything without the value.
//
// If a client wrote over the value without having read it, the lock has lost it. If no majority
// has the value, nothing proves that the servers lost it, so the lock is blamed.
func (l *setLog) forgotten(value string) bool {
	place, committed := l.appended[value]
	if !committed {
		return false
	}
	until, after := l.parts[place.part][:place.index+1], l.parts[place.part][place.index+1:]
	for _, w := range after {
		if w.version <= until[place.index].version {
			return true
		}
		if w.values != nil && !slices.Contains(w.values, value) {
			return revives(w, until)
		}
	}
	return true
}

// revives reports whether a write has a value in it that the leader of an earlier write had forgotten: the
// client that wrote it had read from a server that did not agree with the leader.
func revives(w setWrite, before []setWrite) bool {
	for i, rewrite := range before {
		for k := i - 1; k >= 0 && before[k].version >= rewrite.version; k-- {
			if slices.Contains(w.values, before[k].newest) {
				return true
			}
		}
	}
	return false
}
