package zkserver

import "net"

// MemoryPipe returns the two ends of a connection in memory that no server serves.
func MemoryPipe() (a, b net.Conn) { return new(Server).pipe() }
