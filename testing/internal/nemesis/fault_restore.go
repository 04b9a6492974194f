package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gocurator/curator/testing/ensemble"
)

// restoreServers takes a backup of a server, and restores all servers from it some time later.
// What was acknowledged since the backup is gone then.
//
// It is done as an operator must do it: no client gets in before the sessions of the backup
// have ended. Otherwise a session would go on with ephemeral nodes that its client had deleted.
func restoreServers(_ context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	s := oneOf(random, c.ensemble.Servers()...)
	record.Detail = fmt.Sprintf("all, as %v was", s)
	backup := filepath.Join(c.folder, "backup-"+strconv.FormatInt(record.Start, 10))
	at := monotonic()
	// Not in the middle of a write: a server has synced what it has acknowledged.
	if err := s.Pause(); err != nil {
		return nil, err
	}
	err := errors.Join(os.CopyFS(backup, os.DirFS(historyOf(s))), s.Resume())
	if err != nil {
		return nil, fmt.Errorf("nemesis: backup of %v: %w", s, err)
	}
	return func(ctx context.Context) error {
		record.Backup = at
		return c.restore(ctx, backup, record)
	}, nil
}

// historyOf is the folder of a server's snapshots and logs.
func historyOf(s *ensemble.Server) string { return filepath.Join(s.DataDir(), "version-2") }

// restore restores all servers from a backup, and lets the clients in when their sessions have ended.
func (c *cluster) restore(ctx context.Context, backup string, record *faultRecord) error {
	inside := []*ensemble.Host{c.adminHost}
	for _, s := range c.ensemble.Servers() {
		inside = append(inside, s.Host())
	}
	c.network.Isolate(inside...)
	defer c.network.HealAll()
	for _, s := range c.ensemble.Servers() {
		if err := s.Kill(); err != nil {
			return err
		}
	}
	record.Down = monotonic()
	for _, s := range c.ensemble.Servers() {
		if err := os.RemoveAll(historyOf(s)); err != nil {
			return fmt.Errorf("nemesis: restore %v: %w", s, err)
		}
		if err := os.CopyFS(historyOf(s), os.DirFS(backup)); err != nil {
			return fmt.Errorf("nemesis: restore %v: %w", s, err)
		}
	}
	if err := c.ensemble.Restart(ctx); err != nil {
		return err
	}
	return c.awaitEndOfSessions(ctx)
}

// awaitEndOfSessions waits until the servers have no sessions but the administrator's.
func (c *cluster) awaitEndOfSessions(ctx context.Context) error {
	const admins = 2 // with the vandal
	for {
		counts := make([]int, 0, len(c.ensemble.Servers()))
		for _, s := range c.ensemble.Servers() {
			figures, err := s.Mntr(ctx)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(figures["zk_global_sessions"])
			if err != nil {
				return fmt.Errorf("nemesis: mntr of %v: %w", s, err)
			}
			counts = append(counts, n)
		}
		if slices.Max(counts) <= admins {
			return nil
		}
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
			return fmt.Errorf("nemesis: the restored servers still have %d sessions: %w", slices.Max(counts), ctx.Err())
		}
	}
}

// restored reports whether the servers were restored from a backup in a round.
func (r *roundReport) restored() bool {
	return slices.ContainsFunc(r.record.Faults, func(f faultRecord) bool { return f.Backup != 0 })
}

// mayBeUndone reports whether a restore may have undone what was acknowledged at this moment. What
// the client has heard before the backup began, or from the servers that came up after it, must be there.
func (r *roundReport) mayBeUndone(at int64) bool {
	return slices.ContainsFunc(r.record.Faults, func(f faultRecord) bool { return f.Backup != 0 && f.Backup <= at && at <= f.Down })
}
