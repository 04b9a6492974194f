package queues

// Flushing reports whether a flush waits.
func (q *queue) Flushing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.progress != nil
}
