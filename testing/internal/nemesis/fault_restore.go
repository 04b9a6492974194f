// SPDX-License-Identifier: Apache-2.0

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
	"strings"
	"time"

	"github.com/gocurator/curator/testing/ensemble"
)

// restoreServers takes a backup of a server, and restores all servers from it some time later.
// What was acknowledged since the backup is gone then.
//
// It is done as an operator must do it: no client gets in before the sessions of the backup
// have ended, and the restored servers keep the epochs of those before. Otherwise a session would go on with
// ephemeral nodes that its client had deleted, and tokens would come again.
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
	logs := "log-" + strconv.FormatInt(record.Start, 10)
	if err := c.copyLogs(logs); err != nil {
		return err
	}
	record.Log = logs
	newest, err := c.newestEpochs()
	if err != nil {
		return err
	}
	for _, s := range c.ensemble.Servers() {
		err := errors.Join(os.RemoveAll(historyOf(s)), os.CopyFS(historyOf(s), os.DirFS(backup)))
		for name, epoch := range newest {
			err = errors.Join(err, os.WriteFile(filepath.Join(historyOf(s), name), []byte(strconv.FormatInt(epoch, 10)), 0o600))
		}
		if err != nil {
			return fmt.Errorf("nemesis: restore %v: %w", s, err)
		}
	}
	err = c.ensemble.Restart(ctx)
	if err == nil {
		err = c.awaitEndOfSessions(ctx)
	}
	record.Up = monotonic()
	return errors.Join(err, os.RemoveAll(backup))
}

// newestEpochs are the greatest numbers that any server has in the files of its epochs. Restored servers that have
// them give greater numbers to their transactions than all before; see package fence.
func (c *cluster) newestEpochs() (map[string]int64, error) {
	newest := map[string]int64{"acceptedEpoch": 0, "currentEpoch": 0}
	for _, s := range c.ensemble.Servers() {
		for name := range newest {
			text, err := os.ReadFile(filepath.Join(historyOf(s), name))
			if err != nil {
				return nil, fmt.Errorf("nemesis: epoch of %v: %w", s, err)
			}
			epoch, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("nemesis: epoch of %v: %w", s, err)
			}
			newest[name] = max(newest[name], epoch)
		}
	}
	return newest, nil
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
