// SPDX-License-Identifier: Apache-2.0

package zkserver

import "errors"

// Backup is a copy of all that a server keeps over a stop: its nodes, its sessions, and the number of its newest
// transaction.
type Backup struct {
	tree     *tree
	sessions []session
}

// Backup copies what the server keeps, for [Server.Restore]. The backup of a server that has just been started is
// empty.
func (s *Server) Backup() *Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commandf(0, "Backup")
	b := &Backup{tree: s.tree.snapshot()}
	for _, ss := range s.sessions {
		copied := *ss
		copied.conn = nil
		b.sessions = append(b.sessions, copied)
	}
	return b
}

// Restore gives a stopped server the contents of a backup, its own or another server's. Later transactions are lost,
// and the server gives out their numbers again. A session of the backup may come back to the server once it has
// reached the newest transaction that its client has seen. Call [Server.Restart] then.
//
// An ensemble that was restored elects a leader, which numbers transactions in an epoch of its own: its number is the
// upper half of theirs. Restore begins such an epoch if it is above the backup's. 0 is for a standalone server, which
// goes on counting from the backup.
//
// Restore fails if the server runs, and with [ErrClosed] if it is closed.
func (s *Server) Restore(b *Backup, epoch int32) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.run != nil:
		return errors.New("zkserver: restore: the server runs: stop it first")
	case b == nil:
		return errors.New("zkserver: restore: backup nil: one from Server.Backup expected")
	}
	s.commandf(0, "Restore: epoch %d", epoch)
	s.tree = b.tree.snapshot() // the backup may be restored again
	s.tree.zxid = max(s.tree.zxid, int64(epoch)<<32)
	s.sessions = make(map[int64]*session, len(b.sessions))
	for _, ss := range b.sessions {
		s.sessions[ss.id] = &ss
	}
	if s.member != nil {
		s.member.become(state{tree: s.tree, sessions: s.sessions, committed: s.tree.zxid})
		s.member.before = nil
	}
	return nil
}

// Restore gives all servers the contents of a backup, which [Server.Backup] has made of one of them, or of a server that stands
// alone. It stops them, and starts them again. The ensemble elects a leader, and numbers its transactions from the epoch after
// that of the backup, so numbers that were given since the backup may come again. A session of the backup may come back once the
// servers have reached the newest transaction that its client has seen.
func (e *Ensemble) Restore(b *Backup) error {
	if b == nil {
		return errors.New("zkserver: restore: backup nil: one from Server.Backup expected")
	}
	var errs []error
	for _, m := range e.members {
		errs = append(errs, m.s.Stop())
	}
	for _, m := range e.members {
		errs = append(errs, m.s.Restore(b, int32(b.tree.zxid>>32)))
	}
	for _, m := range e.members {
		errs = append(errs, m.s.Restart())
	}
	return errors.Join(errs...)
}
