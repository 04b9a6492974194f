// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"maps"
	"slices"
)

// sweep removes containers that have had children and have none, and TTL nodes without children that were not modified
// for longer than their TTL, each in a transaction of its own, as ZooKeeper's ContainerManager does.
func (s *Server) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readOnly || s.member != nil && !s.member.isLeading() { // only the leader sweeps
		return
	}
	now := s.wallClock().UnixMilli()
	for _, path := range slices.Sorted(maps.Keys(s.tree.swept)) {
		if !s.tree.nodes[path].outlived(now) {
			continue
		}
		s.log.Info("node swept", "curator.path", path)
		if s.member != nil {
			s.member.propose(&entry{op: OpDeleteContainer, path: path})
			continue
		}
		s.removeSwept(path)
	}
	if s.member != nil {
		s.member.e.settle()
	}
}

func (s *Server) removeSwept(path string) {
	t := s.begin()
	t.remove(path)
	t.commit()
}

// deleteContainer refuses every request: only ZooKeeper's own sweeper may send one. ZooKeeper takes the whole
// frame, header included, for the path, so no client's request names a valid path.
func (x *call) deleteContainer() code {
	x.begin()
	return codeBadArguments
}
