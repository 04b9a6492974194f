// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/guarding"
	"github.com/gocurator/curator/retry"
)

// adoptWithin is how long the znodes that the process before this one has left wait to be adopted.
const adoptWithin = 5 * time.Second

// inheritance is the ephemeral znodes that the process before this one has left in the session. Until a call adopts such a
// znode it belongs to no holder, and the servers keep it as long as the session. So what no call adopts is deleted.
type inheritance struct {
	mu      sync.Mutex
	session int64           // 0 for none
	left    map[string]bool // paths at the server; true while one is adopted or deleted
	changed chan struct{}   // receives when one is not adopted after all
}

func (i *inheritance) begin(session int64, left []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.session, i.left, i.changed = session, make(map[string]bool), make(chan struct{}, 1)
	for _, path := range left {
		i.left[path] = false
	}
}

// claim reports whether the caller may adopt or delete the znode with this path at the server. It must call end then.
func (i *inheritance) claim(full string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	busy, found := i.left[full]
	if !found || busy {
		return false
	}
	i.left[full] = true
	return true
}

// end says whether a znode that was claimed is no longer left.
func (i *inheritance) end(full string, taken bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if taken {
		delete(i.left, full)
	} else {
		i.left[full] = false
	}
	select {
	case i.changed <- struct{}{}:
	default:
	}
}

// below returns the znodes in a folder that may be claimed, or all of them for the empty folder. It reports whether none is left.
func (i *inheritance) below(folder string) (free []string, none bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for path, busy := range i.left {
		if parent, _ := SplitPath(path); !busy && (folder == "" || parent == folder) {
			free = append(free, path)
		}
	}
	// Names of contenders end with the server's number: the first comes first.
	slices.SortFunc(free, func(a, b string) int {
		return cmp.Or(cmp.Compare(lastOf(a), lastOf(b)), cmp.Compare(a, b))
	})
	return free, len(i.left) == 0
}

func lastOf(path string) string { return path[max(0, len(path)-sequenceDigits):] }

// inherited returns the session that this client has inherited, or nil if there is none, or it has ended.
func (c *client) inherited() *Session {
	c.inheritance.mu.Lock()
	id := c.inheritance.session
	c.inheritance.mu.Unlock()
	if _, session := c.tracker.current(); id != 0 && session != nil && session.ID() == id {
		return session
	}
	return nil
}

// Adopt takes over an ephemeral child of a folder that the process before this one has left in the session of this client, see
// [WithID] and [WithSessionFile]. It is for recipes whose znodes have names that are never used again. [Framework.Create]
// of any other ephemeral znode adopts what was left under its path.
//
// Adopt calls accept for such children, in the order of their numbers, until accept returns true. It then sets the data, and
// returns the path and the Stat. The path is "" if there is no such child. Accept must not block. Before the first
// connection Adopt waits as any read does, unless the client cannot inherit a session. What no call has adopted within 5 seconds
// after that connection is deleted.
func (f *Framework) Adopt(ctx context.Context, folder string, data []byte, accept func(name string, data []byte) bool) (path string, stat Stat, err error) {
	if _, err := f.root.writable(folder); err != nil {
		return "", stat, failed(opSet, folder, err)
	}
	if f.guardian == nil || f.guardian.program == "" {
		return "", stat, nil
	}
	if !f.tracker.everHadSession() {
		if err := f.awaitConnection(ctx, f.cfg.ConnectTimeout, nil); err != nil {
			return "", stat, failed(opSet, folder, err)
		}
	}
	free, _ := f.inheritance.below(f.root.full(folder))
	session := f.inherited()
	for _, full := range free {
		if session == nil || !f.inheritance.claim(full) {
			continue
		}
		path = f.root.own(full)
		stat, err = f.adopt(ctx, session, path, data, accept)
		switch {
		case stat.Czxid != 0:
			return path, stat, nil
		case err == nil, errors.Is(err, ErrNoNode), errors.Is(err, ErrBadVersion), errors.Is(err, ErrNoAuth):
		default:
			return "", stat, err
		}
	}
	return "", stat, nil
}

// adopt adopts one znode that the caller has claimed. The Stat is zero if it does not.
func (f *Framework) adopt(
	ctx context.Context, session *Session, path string, data []byte, accept func(name string, data []byte) bool,
) (adopted Stat, err error) {
	defer func() { // also if accept panics: a znode that stays claimed would never be deleted
		f.inheritance.end(f.root.full(path), adopted.Czxid != 0 || errors.Is(err, ErrNoNode))
	}()
	var stat Stat
	left, err := f.Get(ctx, path, StoringStatIn(&stat), InSession(session), Undecompressed())
	if f.compressed && err == nil { // the process before may not have compressed
		if plain, bad := f.cfg.decompress(path, left); bad == nil {
			left = plain
		}
	}
	if _, name := SplitPath(path); err != nil || !accept(name, left) {
		return Stat{}, err
	}
	// On condition, as another client may have asked for the lock to be given back.
	err = f.Set(ctx, path, data, WithVersion(stat.Version), StoringStatIn(&stat), InSession(session), Idempotent())
	if err != nil {
		return Stat{}, err
	}
	return stat, nil
}

// adopts reports whether the znode in the way of this creation was left by the process before this one. It then takes its place,
// with the new data.
func (c *creation) adopts(ctx context.Context) (adopts bool, err error) {
	full := c.f.root.full(c.path)
	session := c.f.inherited()
	if c.cfg.mode != Ephemeral || c.target != c.path || session == nil || c.cfg.session != nil && c.cfg.session != session ||
		!c.f.inheritance.claim(full) {
		return false, nil
	}
	done := false
	defer func() { c.f.inheritance.end(full, done && err == nil || isReply(err, ErrNoNode)) }() // also if a compression panics
	s := setting{f: c.f, path: c.path, data: c.data, cfg: &callConfig{version: AnyVersion}}
	set, err := s.request()
	if err == nil {
		set.session = session
		err = c.f.exchange(ctx, set)
	}
	done, c.stat = true, s.stat
	return true, err
}

// takeOver has the znodes that the process before this one has left adopted or deleted.
func (e *events) takeOver(session int64, left []string) {
	e.inheritance.begin(session, left)
	e.cfg.Logger.Info("goes on with the session of the process before", logSession, guarding.Registration{Session: session}, "znodes", len(left))
	e.background.start(func() {
		select {
		case <-time.After(adoptWithin):
		case <-e.ctx.Done():
			return
		}
		(&Framework{client: e.client}).deleteLeft() // without a chroot
		e.guardian.settle(e.ctx, session)
	})
}

// deleteLeft deletes what no call has adopted. If that is refused, the session ends, and the znodes with it.
func (f *Framework) deleteLeft() {
	for {
		free, none := f.inheritance.below("")
		if none || f.awaitConnection(f.ctx, 0, nil) != nil {
			return
		}
		now := f.inherited()
		if now == nil {
			return // the servers end the session, which no client uses
		}
		for _, full := range free {
			if !f.inheritance.claim(full) {
				continue
			}
			err := f.Delete(f.ctx, full, Idempotent(), InSession(now), WithRetry(retry.Forever(retry.MinWait)))
			f.inheritance.end(full, err == nil)
			if err != nil && !Retryable(err) && !errors.Is(err, ErrSessionEnded) && f.ctx.Err() == nil {
				f.cfg.Logger.Error("a znode of the process before cannot be deleted: the session ends", logPath, full, "error", err)
				f.conduit.GiveUpSession(err)
				return
			}
		}
		select {
		case <-f.inheritance.changed: // by this loop, too
		case <-f.ctx.Done():
			return
		}
	}
}
