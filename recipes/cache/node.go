// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"

	"github.com/gocurator/curator/framework"
)

// work is what must be read about a path.
type work uint8

const (
	readData work = 1 << iota // data and Stat
	compare                   // the Stat, and the data only if the Stat shows a change
	list                      // the children
)

// asksStat reports whether a request for the Stat alone is part of the work.
func (w work) asksStat(n *node, oneShot bool) bool {
	if w&compare == 0 || w&readData != 0 {
		return false
	}
	// A list brings the Stat too. It does not set the watch on the data.
	return w&list == 0 || oneShot && n.armed.data == nil
}

// task is work, with what it is part of.
type task struct {
	work  work
	era   uint64 // of its cause; Fresh waits for the end of its own era and all before
	sweep uint32 // the walk through the whole tree that it belongs to, 0 for none
}

// node is a path with work, or with one-shot watches. A path without work has none: its state
// is in the picture alone.
type node struct {
	path   string
	queued task
	flying task // sent; at most one, so that the reads of a path are applied in order
	armed  armed
}

func (n *node) busy() bool { return n.queued.work != 0 || n.flying.work != 0 }

// crowd is the number of nodes with work above which memory for them is given back. There are
// more only after many events at once, as walks wait for room in the window.
const crowd = 1 << 10

// queue is a queue of nodes.
type queue []*node

func (q *queue) push(n *node) { *q = append(*q, n) }

// pop returns the first node, nil when there is none.
func (q *queue) pop() *node {
	if len(*q) == 0 {
		return nil
	}
	n := (*q)[0]
	if *q = (*q)[1:]; len(*q) == 0 {
		*q = nil // there may have been many
	}
	return n
}

// armed is the one-shot watches on one path, for servers without persistent ones. The zero value has none.
type armed struct{ data, children *framework.Watch }

func (a *armed) any() bool { return *a != armed{} }

// keep takes over a pair of watches. A nil watch leaves the one that is there.
func (a *armed) keep(data, children *framework.Watch) {
	*a = armed{cmp.Or(data, a.data), cmp.Or(children, a.children)}
}

// forget drops a watch that has ended, and reports which of the two it was, if any.
func (a *armed) forget(w *framework.Watch) (ofData, ofChildren bool) {
	switch w {
	case a.data:
		a.data = nil
		return true, false
	case a.children:
		a.children = nil
		return false, true
	default:
		return false, false
	}
}

func (a *armed) cancel() {
	a.data.Cancel()
	a.children.Cancel()
	*a = armed{}
}
