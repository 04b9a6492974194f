package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// CreateMode is the kind of a znode, with Curator's names and the protocol's values.
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

// maxTTL is the largest value that fits into ZooKeeper's 40 bits.
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

// Create creates a znode and returns its path, which differs from the path argument for the
// sequential modes and with [WithProtection]. For a sequential mode the path may end with a
// slash: the name is then the number alone.
//
// Without WithProtection or [Idempotent], Create is not repeated after a try whose outcome
// is unknown, see [OutcomeUnknown].
func (f *Framework) Create(ctx context.Context, path string, data []byte, opts ...CreateOption) (string, error) {
	var c *creation
	err := f.verb(ctx, opCreate, path, func() (p plan, err error) {
		if c, err = f.newCreation(path, data, opts); err != nil {
			return plan{}, err
		}
		p = plan{common: c.cfg.common, attempt: c.attempt, repeatable: c.cfg.idempotent}
		if c.cfg.protected {
			p.attempt, p.settle = c.protect()
			p.repeatable = true
		}
		return p, nil
	})
	if err != nil {
		return "", err
	}
	if c.cfg.stat != nil {
		*c.cfg.stat = c.stat
	}
	return c.created, nil
}

// creation is one Create under way.
type creation struct {
	f      *Framework
	cfg    createConfig
	path   string     // as the caller named it
	target string     // the path of this try, which differs with protection
	sent   *undecided // with protection, this try
	data   []byte

	created string
	stat    Stat
}

func (f *Framework) newCreation(path string, data []byte, opts []CreateOption) (*creation, error) {
	cfg, err := newCreateConfig(opts)
	if err != nil {
		return nil, err
	}
	if err := f.creatable(path, cfg.mode); err != nil {
		return nil, err
	}
	if cfg.acl == nil {
		cfg.acl = f.cfg.defaultACL(f.root.below(path))
	}
	if data, err = f.cfg.stored(path, data, cfg.compressed); err != nil {
		return nil, err
	}
	return &creation{f: f, cfg: cfg, path: path, target: path, data: data}, nil
}

func (f *Framework) creatable(path string, mode CreateMode) error {
	checked := path
	if mode.isSequential() {
		checked += "0"
	}
	if checked == "/" {
		return fmt.Errorf("%w %q: the root always exists", ErrInvalidPath, path)
	}
	if _, err := f.root.writable(checked); err != nil {
		return err
	}
	return nil
}

// errAgain means that the tree has changed between two requests of one try, which must
// start again.
var errAgain = errors.New("again")

// attempt sends the request, creates missing parents, and treats an existing znode as the
// options say.
func (c *creation) attempt(ctx context.Context) error {
	for {
		calls, err := c.requests()
		if err != nil {
			return err
		}
		err = c.f.exchange(ctx, calls...)
		switch {
		case c.created != "":
			return nil // even if the list has failed
		case isReply(err, ErrNodeExists):
			// It may be this call's own, of a try without a reply.
			err = c.onExisting(ctx, err)
		case isReply(err, ErrNoNode) && c.makesParents():
			// A container may be reaped before its first child is created: try again.
			if err = c.createParents(ctx); err == nil {
				err = errAgain
			}
		case isReply(err, ErrNoNode):
			parent, _ := SplitPath(c.path)
			err = &OpError{opCreate.name, c.path, fmt.Errorf(
				"%w: its parent %s is missing, expected it or CreatingParentsIfNeeded", ErrNoNode, parent)}
		}
		if !errors.Is(err, errAgain) {
			return err
		}
	}
}

// makesParents reports whether a missing parent must be created: with the option, or if it
// is the view's namespace.
func (c *creation) makesParents() bool {
	parent, _ := SplitPath(c.target)
	return c.cfg.parents || parent == "/" && c.f != c.f.base
}

// requests returns what one try sends: the creation and, if asked for, the list.
func (c *creation) requests() ([]*call, error) {
	asked := c.f.root.below(c.target)
	creation := &call{
		operation: c.cfg.mode.operation(), path: c.path,
		body: encodeCreate(asked, c.data, &c.cfg),
		decode: func(d *wire.Decoder) error {
			full := d.String()
			c.stat = d.Stat()
			// Checked, because the caller may delete the path that it gets.
			number, ok := strings.CutPrefix(full, asked)
			if !ok || (number != "") != c.cfg.mode.isSequential() || strings.Contains(number, "/") {
				d.Reject(fmt.Sprintf("%q as the path of the node %q", full, asked))
			}
			if d.Err() == nil {
				c.created = c.f.root.own(full)
			}
			return nil
		},
	}
	// With protection the reply counts even after the caller has gone.
	if c.sent != nil {
		creation.begin = func() func(conduit.Reply, error) { return c.sent.begin(c.f.root) }
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
	e := wire.NewEncoder(len(full) + len(data) + 64)
	e.String(full)
	e.Buffer(data)
	e.ACL(cfg.acl)
	e.Int32(int32(cfg.mode))
	// The other requests end here.
	if cfg.mode.hasTTL() {
		e.Int64(cfg.ttl.Milliseconds())
	}
	return e.Bytes()
}
