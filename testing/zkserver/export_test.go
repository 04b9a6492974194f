package zkserver

import "net"

// WithMaxQueued sets how many bytes may wait for a client that does not read.
func WithMaxQueued(n int) Option {
	return optionFunc(func(c *config) error {
		c.maxQueued = n
		return nil
	})
}

// MemoryPipe returns the two ends of a connection in memory that no server serves.
func MemoryPipe() (a, b net.Conn) { return new(Server).pipe() }
