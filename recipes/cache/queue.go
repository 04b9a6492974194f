package cache

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
		q.nodes, q.head = nil, 0
		return nil
	}
	n := q.nodes[q.head]
	q.nodes[q.head] = nil
	q.head++
	return n
}
