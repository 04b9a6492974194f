// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/usercode"
)

// heartbeatWriter is the Framework as its sessions see it.
type heartbeatWriter Framework

func (f *Framework) heartbeats() heartbeats { return (*heartbeatWriter)(f) }

func (w *heartbeatWriter) start(run func()) bool { return w.background.start(run) }

func (w *heartbeatWriter) write(ctx context.Context, s *Session, path string, created bool) error {
	for {
		err := w.exchange(ctx, w.request(s, path, created))
		if created || !isReply(err, ErrNoNode) {
			return err
		}
		// A hold may be the first thing below a chroot.
		root, _ := SplitPath(w.cfg.root.below(path))
		p := parents{f: w.base, mode: Persistent}
		if err := w.guarded(func() error { return p.create(ctx, root) }); err != nil {
			return err
		}
	}
}

func (w *heartbeatWriter) request(s *Session, path string, created bool) *call {
	full := w.cfg.root.below(path)
	c := &call{path: path, common: common{session: s}, confirm: true}
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

// guarded calls what may call user code: an ACL provider or a retry policy. Its panic must not
// end the goroutine of a session.
func (w *heartbeatWriter) guarded(fn func() error) (err error) {
	if p := usercode.Apart(func() { err = fn() }); p != nil {
		w.cfg.Logger.Error("user code of a request in the background panicked", "panic", p.Value, "stack", p.Stack)
		return p
	}
	return err
}

func (w *heartbeatWriter) hasLeader() bool {
	var data []byte
	err := w.guarded(func() (err error) {
		data, err = w.base.Config(w.ctx)
		return err
	})
	// Servers before ZooKeeper 3.5 do not say.
	return isReply(err, ErrNoNode) || isReply(err, ErrNoAuth) || bytes.Contains(data, []byte("server."))
}

func (w *heartbeatWriter) remove(ctx context.Context, path string) {
	// Refused only when the client is closed: then the znode goes with the session.
	_ = w.base.Delete(ctx, path, InBackground())
}
