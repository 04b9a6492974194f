package framework

// WatchedPaths is the number of server watches that the client keeps account of.
func (f *Framework) WatchedPaths() int {
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	return len(f.watches.entries) + len(f.watches.persistent)
}
