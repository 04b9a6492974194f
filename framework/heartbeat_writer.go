// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/usercode"
)

// writeHeartbeat writes to a znode, which it creates if created is false, in this session only. The znode may be the first one
// below the client's root.
func (f *Framework) writeHeartbeat(ctx context.Context, s *Session, path string, created bool) error {
	for {
		err := f.exchangeIn(ctx, bounds{session: s}, []*call{f.heartbeatCall(path, created)})
		if created || !isReply(err, ErrNoNode) {
			return err
		}
		// A hold may be the first thing below a chroot.
		root, _ := SplitPath(f.cfg.root.below(path))
		p := parents{f: f, mode: Persistent}
		if err := f.guarded(func() error { return p.create(ctx, root) }); err != nil {
			return err
		}
	}
}

func (f *Framework) heartbeatCall(path string, created bool) *call {
	full := f.cfg.root.below(path)
	c := &call{path: path, confirm: true}
	if created {
		e := wire.NewEncoder(len(full) + 12)
		e.String(full)
		e.Buffer(nil)
		e.Int32(-1) // whatever its version
		c.operation, c.body = opSet, e.Bytes()
		return c
	}
	cfg := callConfig{mode: Ephemeral, acl: zk.WorldACL(zk.PermAll)}
	c.operation, c.body = cfg.mode.operation(), encodeCreate(full, nil, &cfg)
	return c
}

// closePatience is how long Close waits for user code of a request in the background. That code may itself wait for Close.
const closePatience = 500 * time.Millisecond

// guarded calls what may call user code: an ACL provider or a retry policy. Its panic must not
// end the goroutine of a session. It returns closePatience after the end of the client at the latest, and fn may
// still run then. So what fn has written is valid only if the error is nil.
func (f *Framework) guarded(fn func() error) error {
	type outcome struct {
		err      error
		panicked *usercode.PanicError
	}
	done := make(chan outcome, 1)
	go func() {
		var err error
		usercode.Call(func() { err = fn() }, func(p *usercode.PanicError) { done <- outcome{err, p} })
	}()
	var tooLate <-chan time.Time
	for ended := f.ctx.Done(); ; {
		select {
		case o := <-done:
			if o.panicked == nil {
				return o.err
			}
			f.cfg.Logger.Error("user code of a request in the background panicked", "panic", o.panicked.Value, "stack", o.panicked.Stack)
			return o.panicked
		case <-ended:
			ended, tooLate = nil, time.After(closePatience)
		case <-tooLate:
			return f.ended()
		}
	}
}

// deleteHeartbeat deletes a heartbeat's znode, however long that takes.
func (f *Framework) deleteHeartbeat(path string) {
	// Refused only when the client is closed: then the znode goes with the session.
	_ = f.Delete(context.Background(), path, InBackground())
}

func (f *Framework) settings() *config { return &f.cfg }

func (f *Framework) inBackground(run func()) bool { return f.background.start(run) }

func (f *Framework) nextHeartbeat() int64 { return f.heartbeats.Add(1) }

// hasLeader asks the server whether there are others, from which it can be cut off.
func (f *Framework) hasLeader() bool {
	var data []byte
	err := f.guarded(func() (err error) {
		data, err = f.Config(f.ctx)
		return err
	})
	// Servers before ZooKeeper 3.5 do not say.
	return isReply(err, ErrNoNode) || isReply(err, ErrNoAuth) || err == nil && bytes.Contains(data, []byte("server."))
}
