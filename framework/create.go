package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/jute"
)

// CreateMode is the kind of a znode, with Curator's names. The values are those
// of the protocol.
type CreateMode int32

// The seven kinds of znodes.
const (
	Persistent                  CreateMode = 0
	Ephemeral                   CreateMode = 1 // deleted with its session
	PersistentSequential        CreateMode = 2 // the server appends a number of ten digits
	EphemeralSequential         CreateMode = 3
	Container                   CreateMode = 4 // deleted by the server some time after its last child
	PersistentWithTTL           CreateMode = 5 // deleted by the server when unchanged for its time to live
	PersistentSequentialWithTTL CreateMode = 6
)

// maxTTL is what fits into the 40 bits that ZooKeeper has for it.
const maxTTL = (1<<40 - 1) * time.Millisecond

func (m CreateMode) isSequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialWithTTL
}

func (m CreateMode) isEphemeral() bool { return m == Ephemeral || m == EphemeralSequential }

func (m CreateMode) hasTTL() bool { return m == PersistentWithTTL || m == PersistentSequentialWithTTL }

// operation returns the request that creates this kind. Only opCreateContainer
// makes containers: opCreate with the container's flag makes a persistent node.
func (m CreateMode) operation() operation {
	switch {
	case m == Container:
		return opCreateContainer
	case m.hasTTL():
		return opCreateTTL
	default:
		return opCreate
	}
}

// createConfig is what the options of Create set.
type createConfig struct {
	mode      CreateMode
	ttl       time.Duration
	acl       []ACL
	parents   bool
	parentsAs CreateMode
	protected bool
	session   *Session
	stat      *Stat
	siblings  *[]string
}

// CreateOption is an option of [Framework.Create] and [CreateOp].
type CreateOption interface{ applyCreate(*createConfig) error }

type createOption func(*createConfig) error

func (o createOption) applyCreate(c *createConfig) error { return o(c) }

func (o StatOption) applyCreate(c *createConfig) error { return o.store(&c.stat) }

// WithMode sets the kind of the znode. Default: [Persistent].
func WithMode(mode CreateMode) CreateOption {
	return createOption(func(c *createConfig) error {
		if mode < Persistent || mode > PersistentSequentialWithTTL {
			return fmt.Errorf("create mode %d, expected one of the seven", mode)
		}
		c.mode = mode
		return nil
	})
}

// WithTTL sets the time to live of a mode that has one: the server deletes the
// znode when it has had no children and no change for that long. It is needed for
// those modes and refused for others. Whole milliseconds, up to 2^40 - 1.
func WithTTL(ttl time.Duration) CreateOption {
	return createOption(func(c *createConfig) error {
		if ttl < time.Millisecond || ttl > maxTTL {
			return fmt.Errorf("time to live %v, expected 1ms to %v", ttl, maxTTL)
		}
		c.ttl = ttl
		return nil
	})
}

// WithACL sets the access control list of the znode, and of parents that are
// created with it. Default: everybody may do everything.
func WithACL(acl ...ACL) CreateOption {
	return createOption(func(c *createConfig) error {
		if len(acl) == 0 {
			return errors.New("WithACL(), expected one entry or more")
		}
		c.acl = acl
		return nil
	})
}

// CreatingParentsIfNeeded creates missing parents as persistent nodes without
// data.
func CreatingParentsIfNeeded() CreateOption { return creatingParents(Persistent) }

// CreatingParentContainersIfNeeded creates missing parents as containers, which
// the server deletes some time after their last child. It is what all recipes
// use.
func CreatingParentContainersIfNeeded() CreateOption { return creatingParents(Container) }

func creatingParents(mode CreateMode) CreateOption {
	return createOption(func(c *createConfig) error {
		c.parents, c.parentsAs = true, mode
		return nil
	})
}

// WithProtection makes the create safe against a lost reply, in particular that of
// a sequential node, whose name the client would never learn. The name gets the
// prefix "_c_", a UUID and "-", as in Curator. After a try whose outcome is
// unknown the client looks for that name before it tries again; when it gives up
// in doubt, the node is found and deleted in the background, and the error matches
// [ErrCleanupPending].
func WithProtection() CreateOption {
	return createOption(func(c *createConfig) error { c.protected = true; return nil })
}

// InSession creates the znode only in this session: once it has ended, also while
// the call waits for a connection, the call fails with [ErrSessionEnded] and sends
// nothing.
func InSession(s *Session) CreateOption {
	return createOption(func(c *createConfig) error {
		if s == nil {
			return errors.New("InSession(nil), expected a session")
		}
		c.session = s
		return nil
	})
}

// ListingSiblingsIn also lists the children of the parent, in the same write and
// after the creation, so that both take one round trip together. The list has the
// new znode in it. It is nil when the znode was created but could not be listed,
// or was created by an earlier try: then [Framework.Children] is to be asked.
func ListingSiblingsIn(names *[]string) CreateOption {
	return createOption(func(c *createConfig) error {
		if names == nil {
			return errors.New("ListingSiblingsIn(nil), expected a place for the names")
		}
		c.siblings = names
		return nil
	})
}

func newCreateConfig(opts []CreateOption) (createConfig, error) {
	cfg := createConfig{acl: zk.WorldACL(zk.PermAll)}
	if err := applyAll(opts, func(o CreateOption) error { return o.applyCreate(&cfg) }); err != nil {
		return cfg, err
	}
	if cfg.mode.hasTTL() != (cfg.ttl != 0) {
		return cfg, fmt.Errorf("%w: create mode %d with time to live %v", ErrInvalidOption, cfg.mode, cfg.ttl)
	}
	return cfg, nil
}

// Create creates a znode and returns its path, which for the sequential modes and
// with [WithProtection] is not the one asked for. For a sequential mode the path
// may end with a slash: the name is then the number alone.
//
// Without WithProtection it is not repeated after a try whose outcome is unknown,
// see [OutcomeUnknown].
func (f *Framework) Create(ctx context.Context, path string, data []byte, opts ...CreateOption) (string, error) {
	cfg, err := newCreateConfig(opts)
	if err != nil {
		return "", failed(opCreate, path, err)
	}
	if err := f.creatable(path, cfg.mode); err != nil {
		return "", failed(opCreate, path, err)
	}
	c := &creation{f: f, cfg: cfg, path: path, target: path, data: data}
	if cfg.protected {
		err = c.createProtected(ctx)
	} else {
		err = f.measured(ctx, opCreate, path, permanentInDoubt(c.attempt))
	}
	if err != nil {
		return "", failed(opCreate, path, err)
	}
	if cfg.stat != nil {
		*cfg.stat = c.stat
	}
	return c.created, nil
}

func (f *Framework) creatable(path string, mode CreateMode) error {
	checked := path
	if mode.isSequential() {
		checked += "0"
	}
	if checked == "/" {
		return fmt.Errorf("%w %q: the root always exists", ErrInvalidPath, path)
	}
	if _, err := f.writable(checked); err != nil {
		return err
	}
	return nil
}

// creation is one Create under way.
type creation struct {
	f      *Framework
	cfg    createConfig
	path   string // as the caller named it
	target string // with protection, that of this try
	data   []byte

	created string
	stat    Stat
}

// attempt sends the request, with the parents as needed.
func (c *creation) attempt(ctx context.Context) error {
	for {
		calls, err := c.requests()
		if err != nil {
			return err
		}
		err = c.f.exchange(ctx, calls...)
		switch {
		case c.created != "":
			return nil // whatever has become of the list
		case !errors.Is(err, ErrNoNode) || !c.cfg.parents:
			return err
		}
		parent, _ := SplitPath(c.f.cfg.root.below(c.target))
		if err := c.createParents(ctx, parent); err != nil {
			return err
		}
		// A container may be reaped before its first child: then around again.
	}
}

// requests returns what one try sends: the creation and, if asked for, the list.
func (c *creation) requests() ([]*call, error) {
	creation := &call{
		operation: c.cfg.mode.operation(), path: c.path, session: c.cfg.session,
		body: encodeCreate(c.f.cfg.root.below(c.target), c.data, &c.cfg),
		decode: func(d *jute.Decoder) {
			full := d.String()
			decodeStat(d, &c.stat)
			if d.Err() == nil {
				c.created = c.f.cfg.root.own(full)
			}
		},
	}
	if c.cfg.siblings == nil {
		return []*call{creation}, nil
	}
	*c.cfg.siblings = nil
	parent, _ := SplitPath(c.target)
	list, err := ReadChildren(parent, c.cfg.siblings).build(c.f)
	return []*call{creation, list}, err
}

func encodeCreate(full string, data []byte, cfg *createConfig) []byte {
	e := jute.NewEncoder(len(full) + len(data) + 64)
	e.String(full)
	e.Buffer(data)
	e.Int32(int32(len(cfg.acl)))
	for _, a := range cfg.acl {
		e.Int32(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
	e.Int32(int32(cfg.mode))
	if cfg.mode.hasTTL() {
		e.Int64(cfg.ttl.Milliseconds())
	}
	return e.Bytes()
}

// createParents creates the node with this path at the server, and what is
// missing above it, the chroot included. It is repeated together with the attempt
// that needs it. Whether an unanswered create of a parent was applied is not asked:
// creating it again does no harm.
func (c *creation) createParents(ctx context.Context, full string) error {
	cfg := createConfig{mode: c.cfg.parentsAs, acl: c.cfg.acl}
	op := cfg.mode.operation()
	op.write = false
	node := &call{operation: op, path: c.f.cfg.root.own(full), body: encodeCreate(full, []byte{}, &cfg)}
	for {
		err := c.f.exchange(ctx, node)
		switch {
		case err == nil, errors.Is(err, ErrNodeExists):
			return nil
		case !errors.Is(err, ErrNoNode) || full == "/":
			return err
		}
		parent, _ := SplitPath(full)
		if err := c.createParents(ctx, parent); err != nil {
			return err
		}
	}
}
