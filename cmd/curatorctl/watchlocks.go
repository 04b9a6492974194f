// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
)

// settle is how long changes are gathered before locks are read again.
const settle = 100 * time.Millisecond

// changes gathers the folders in which something has changed.
type changes struct {
	mu      sync.Mutex
	folders map[string]bool
	all     bool // news may have been missed
	wake    chan struct{}
}

func (s *changes) add(e framework.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Path == "" || e.Type == framework.EventResync {
		s.all = true
	} else {
		folder, _ := framework.SplitPath(e.Path)
		for _, path := range []string{e.Path, folder} {
			s.folders[path] = true
		}
		if above, name := framework.SplitPath(folder); name == "leases" || name == "locks" {
			s.folders[above] = true
		}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *changes) take() (folders []string, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	folders, all = slices.Sorted(maps.Keys(s.folders)), s.all
	clear(s.folders)
	s.all = false
	return folders, all
}

// watchLocks lists the locks, and then each again when it has changed. One recursive watch
// tells of changes, and only the locks that have changed are read.
func (c *call) watchLocks(ctx context.Context, path string) error {
	watch, err := c.client.AddWatch(ctx, path, framework.WatchPersistentRecursive)
	if err != nil {
		return err
	}
	defer watch.Cancel()
	news := &changes{folders: make(map[string]bool), wake: make(chan struct{}, 1)}
	registration := watch.OnEvent(news.add)
	defer registration.Remove()
	known := make(map[string]lockRow)
	if err := c.listAgain(ctx, path, known); err != nil {
		return err
	}
	for {
		select {
		case <-news.wake:
		case <-watch.Done():
			return watch.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		folders, all := news.take()
		if all {
			err = c.listAgain(ctx, path, known)
		} else {
			err = c.lookAgain(ctx, folders, known)
		}
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}
}

// listAgain reads everything.
func (c *call) listAgain(ctx context.Context, path string, known map[string]lockRow) error {
	survey, err := inspect.Walk(ctx, c.client, path, inspect.HeadsOnly())
	if err != nil {
		return err
	}
	c.complainOf(survey.Unreadable)
	clear(known)
	rows := lockRows(survey.Recipes)
	for _, row := range rows {
		known[row.Path] = row
	}
	if c.output == "json" {
		return c.writeChanges(rows)
	}
	return c.writeLocks(rows)
}

// lookAgain reads the folders in which something has changed.
func (c *call) lookAgain(ctx context.Context, folders []string, known map[string]lockRow) error {
	for _, folder := range folders { // parents first
		above, name := framework.SplitPath(folder)
		if (name == "leases" || name == "locks") && known[above].Kind == inspect.Semaphore {
			continue // a part of it
		}
		recipes, err := inspect.At(ctx, c.client, folder, inspect.HeadsOnly())
		if err != nil && !errors.Is(err, framework.ErrNoNode) && !errors.Is(err, framework.ErrNoAuth) {
			return err
		}
		rows := lockRows(recipes)
		if was, isKnown := known[folder]; isKnown && len(rows) == 0 {
			rows = []lockRow{{Path: was.Path, Kind: was.Kind}}
			delete(known, folder)
		} else if len(rows) > 0 {
			known[folder] = rows[len(rows)-1]
		}
		if err := c.writeChanges(rows); err != nil {
			return err
		}
	}
	return nil
}

// writeChanges writes a line for each lock.
func (c *call) writeChanges(rows []lockRow) error {
	for _, row := range rows {
		if err := c.show(row, [][]string{row.cells(c.output == "wide")}); err != nil {
			return err
		}
	}
	return nil
}
