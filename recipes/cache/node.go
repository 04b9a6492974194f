package cache

import "github.com/gocurator/curator/framework"

// work is what must be read about a path.
type work uint8

const (
	readData work = 1 << iota // data and Stat
	compare                   // the Stat, and the data only if the Stat shows a change
	list                      // the children
)

// task is work, with what it is part of.
type task struct {
	work  work
	era   uint64 // of its cause; Fresh waits for the end of its own era and all before
	sweep uint32 // the walk through the whole tree that it belongs to, 0 for none
}

// node is what the engine knows of one path. A path has one while it is in the picture or has
// work, so it is kept small.
type node struct {
	path         string
	czxid, mzxid int64 // of the state in the picture
	swept        uint32
	known        bool // it is in the picture
	folder       bool // it had children when it was last read
	jobs         *jobs
	armed        armed
}

// jobs is the work of a node that has any.
type jobs struct {
	queued task
	flying task // sent; at most one, so that the reads of a path are applied in order
}

// shows reports whether the picture has the state that a Stat describes. A version would not
// do: a znode that was deleted and created again has the same one.
func (n *node) shows(stat *framework.Stat) bool {
	return n.known && n.czxid == stat.Czxid && n.mzxid == stat.Mzxid
}

// queue is a queue of nodes.
type queue struct {
	nodes []*node
	head  int
}

func (q *queue) push(n *node) { q.nodes = append(q.nodes, n) }

func (q *queue) len() int { return len(q.nodes) - q.head }

// pop returns the first node, nil when there is none.
func (q *queue) pop() *node {
	if q.len() == 0 {
		q.nodes, q.head = nil, 0 // after a sweep of a large tree this is much memory
		return nil
	}
	n := q.nodes[q.head]
	q.nodes[q.head] = nil
	q.head++
	return n
}
