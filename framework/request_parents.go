package framework

import (
	"context"
)

// parents makes the nodes above another one.
type parents struct {
	f    *Framework
	mode CreateMode
	acl  []ACL // nil for what the client's ACLProvider says for each
}

func (c *creation) createParents(ctx context.Context) error {
	p := parents{f: c.f, mode: c.cfg.parentsAs}
	if c.cfg.aclParents {
		p.acl = c.cfg.acl
	}
	parent, _ := SplitPath(c.f.root.below(c.target))
	return p.create(ctx, parent)
}

// CreateContainers makes sure that there is a znode with this path, and with those
// above it: what is missing is created as a container without data, what exists stays
// as it is. It may be repeated at will. It is Curator's createContainers and what its
// EnsureContainers does.
//
// The server deletes a container only when it has had children and has none left.
func (f *Framework) CreateContainers(ctx context.Context, path string, opts ...CallOption) error {
	return f.createAll(ctx, Container, path, opts)
}

// Mkdirs is [Framework.CreateContainers] with persistent znodes, which stay when
// they have no children left. It is Curator's ZKPaths.mkdirs.
func (f *Framework) Mkdirs(ctx context.Context, path string, opts ...CallOption) error {
	return f.createAll(ctx, Persistent, path, opts)
}

func (f *Framework) createAll(ctx context.Context, mode CreateMode, path string, opts []CallOption) error {
	return f.verb(ctx, opCreate, path, func() (plan, error) {
		cfg, err := newCallConfig(opts)
		if err != nil {
			return plan{}, err
		}
		full, err := f.writable(path)
		p := parents{f: f, mode: mode}
		return plan{common: cfg.common, attempt: func(ctx context.Context) error {
			if full == "/" {
				return nil // it always exists
			}
			return p.create(ctx, full)
		}}, err
	})
}

// create makes sure of the node with this path at the server, and of what is above
// it, the chroot included. It is repeated together with the attempt that needs it.
// Whether an unanswered create of a parent was applied is not asked: creating it
// again does no harm.
func (p *parents) create(ctx context.Context, full string) error {
	node := p.request(full)
	for {
		err := p.f.exchange(ctx, node)
		switch {
		case err == nil, isReply(err, ErrNodeExists):
			return nil
		case node.code == opCreateContainer.code && isReply(err, errUnimplemented):
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

// WithoutContainerParents makes persistent nodes of the parents that the client and its
// recipes would make as containers, for servers that have none: ZooKeeper before 3.5, and
// early versions of ClickHouse Keeper. Such parents stay when their last child has gone. It
// is Curator's dontUseContainerParents. Default: containers, until a server answers that it
// does not know them.
func WithoutContainerParents() Option {
	return optionFunc(func(c *config) error { c.noContainers = true; return nil })
}

// avoidContainers makes all further parents persistent nodes.
func (f *Framework) avoidContainers() {
	if f.noContainers.CompareAndSwap(false, true) {
		f.cfg.log.Warn("the server has no container nodes: parents are created as persistent nodes, and stay when they are empty")
	}
}

func (p *parents) request(full string) *call {
	cfg := createConfig{mode: p.mode, acl: p.acl}
	if p.f.isNamespace(full) {
		cfg.mode = Container
	}
	if cfg.mode == Container && p.f.noContainers.Load() {
		cfg.mode = Persistent
	}
	if cfg.acl == nil {
		cfg.acl = p.f.defaultACL(full)
	}
	op := cfg.mode.operation()
	op.write = false
	return &call{operation: op, path: p.f.root.own(full), body: encodeCreate(full, []byte{}, &cfg)}
}
