// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"

	"github.com/gocurator/curator/framework/internal/wire"
)

// parents creates the znodes above another one.
type parents struct {
	f    *Framework
	mode CreateMode
	acl  []ACL // nil for the lists of the client's ACLProvider
}

func (c *creation) createParents(ctx context.Context) error {
	p := parents{f: c.f, mode: c.cfg.parentsAs()}
	if c.cfg.has(applyingACLToParents) {
		p.acl = c.cfg.acl
	}
	parent, _ := SplitPath(c.f.root.below(c.target))
	return p.create(ctx, parent)
}

// CreateContainers creates the znode at path and those above it that are missing, as
// containers without data. Existing znodes stay as they are, so the call may be repeated any
// number of times. It is Curator's createContainers and EnsureContainers.
//
// The server deletes a container only after its last child has been deleted.
func (f *Framework) CreateContainers(ctx context.Context, path string, opts ...CallOption) error {
	return f.createAll(ctx, Container, path, opts)
}

// Mkdirs is [Framework.CreateContainers] with persistent znodes, which stay when
// they have no children left. It is Curator's ZKPaths.mkdirs.
func (f *Framework) Mkdirs(ctx context.Context, path string, opts ...CallOption) error {
	return f.createAll(ctx, Persistent, path, opts)
}

func (f *Framework) createAll(ctx context.Context, mode CreateMode, path string, opts []CallOption) error {
	cfg, err := newCommon(opts)
	full := ""
	if err == nil {
		full, err = f.root.writable(path)
	}
	p := parents{f: f, mode: mode}
	attempt := func(ctx context.Context) error {
		if full == "/" {
			return nil // it always exists
		}
		return p.create(ctx, full)
	}
	return f.run(ctx, opCreate, path, plan{common: cfg, attempt: attempt}, err)
}

// create makes sure that the znode with this path at the server exists, and those above
// it, including the chroot. It is repeated together with the attempt that needs it. The
// outcome of an unanswered create does not matter: creating the parent again does no harm.
func (p *parents) create(ctx context.Context, full string) error {
	node := p.request(full)
	for {
		err := p.f.foundInstead(ctx, full, p.f.exchange(ctx, node))
		switch {
		case err == nil, isReply(err, ErrNodeExists):
			return nil
		case node.code == opCreateContainer.code && (isReply(err, errUnimplemented) || isReply(err, ErrUnsupported)):
			// Once for all parents of the client, rather than at each.
			p.f.avoidContainers()
			node = p.request(full)
			continue
		case !isReply(err, ErrNoNode) || full == "/":
			return err
		}
		parent, _ := SplitPath(full)
		if err := p.create(ctx, parent); err != nil {
			return err
		}
	}
}

// foundInstead turns the ErrNoAuth of a create into ErrNodeExists if the znode with this path
// at the server exists. A server checks the permission to create before it looks for the
// znode. So a client without that permission could not use an existing znode (CURATOR-728).
func (f *Framework) foundInstead(ctx context.Context, full string, err error) error {
	if !isReply(err, ErrNoAuth) {
		return err
	}
	var e wire.Encoder
	e.String(full)
	e.Bool(false) // no watch
	found := false
	look := &call{
		operation: opExists, path: f.root.own(full), body: e.Bytes(),
		decode:  func(d wire.Decoder) error { d.Stat(); found = d.Err() == nil; return d.Err() },
		refused: func(error) error { return nil }, // the create's error says more
	}
	if lookErr := f.exchange(ctx, look); lookErr != nil {
		return lookErr
	}
	if found {
		return &OpError{opCreate.name, f.root.own(full), ErrNodeExists}
	}
	return err
}

// avoidContainers makes all further parents persistent nodes.
func (f *Framework) avoidContainers() {
	if f.noContainers.CompareAndSwap(false, true) {
		f.cfg.Logger.Warn("the server has no container nodes: parents are created as persistent nodes, and stay when they are empty")
	}
}

func (p *parents) request(full string) *call {
	cfg := callConfig{mode: p.mode, acl: p.acl}
	if p.f.isNamespace(full) {
		cfg.mode = Container
	}
	if cfg.mode == Container && p.f.noContainers.Load() {
		cfg.mode = Persistent
	}
	if cfg.acl == nil || isBelow(string(p.f.root), full) { // the namespace and the chroot are not of one znode
		cfg.acl = p.f.cfg.defaultACL(full)
	}
	op := cfg.mode.operation()
	op.write = false
	return &call{operation: op, path: p.f.root.own(full), body: encodeCreate(full, []byte{}, &cfg)}
}

// worldACL is shared: it is only encoded, or copied.
var worldACL = OpenACL()

// defaultACL returns the list for a new znode without its own list, given its path at the
// server.
func (c *config) defaultACL(full string) []ACL {
	if c.acl == nil {
		return worldACL
	}
	var acl []ACL
	// The provider knows paths below the chroot only.
	if root := c.root; root == "" || isBelow(full, string(root)) && full != string(root) {
		acl = c.acl.ACLForPath(root.own(full))
	}
	if len(acl) == 0 {
		acl = c.acl.DefaultACL()
	}
	if len(acl) == 0 {
		acl = OpenACL()
	}
	return acl
}
