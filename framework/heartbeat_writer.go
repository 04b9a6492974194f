// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/usercode"
)

// writeHeartbeat writes to a znode, which it creates if created is false, in this session only. The znode may be the first one
// below the client's root.
func (f *Framework) writeHeartbeat(ctx context.Context, s *Session, path string, created bool) error {
	for {
		err := f.exchange(ctx, f.heartbeatCall(s, path, created))
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

func (f *Framework) heartbeatCall(s *Session, path string, created bool) *call {
	full := f.cfg.root.below(path)
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
func (f *Framework) guarded(fn func() error) (err error) {
	if p := usercode.Apart(func() { err = fn() }); p != nil {
		f.cfg.Logger.Error("user code of a request in the background panicked", "panic", p.Value, "stack", p.Stack)
		return p
	}
	return err
}

// hasLeader asks the server whether there are others, from which it can be cut off.
func (f *Framework) hasLeader() bool {
	var data []byte
	err := f.guarded(func() (err error) {
		data, err = f.Config(f.ctx)
		return err
	})
	// Servers before ZooKeeper 3.5 do not say.
	return isReply(err, ErrNoNode) || isReply(err, ErrNoAuth) || bytes.Contains(data, []byte("server."))
}
