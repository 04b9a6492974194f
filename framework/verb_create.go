package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
	c, err := f.newCreation(path, data, opts)
	if err = f.run(ctx, opCreate, path, c.plan(), err); err != nil {
		return "", err
	}
	storeStat(c.cfg.stat, c.cfg.newStat, c.stat)
	return c.created, nil
}

// creation is one Create under way.
type creation struct {
	f      *Framework
	cfg    createConfig
	path   string     // as the caller named it
	target string     // the path of this try, which differs with protection
	sent   *undecided // with protection, this try
	doubt  *undecided // with protection, the node that may exist; nil when certainly none does
	data   []byte

	create call     // the request of this try
	list   *call    // of the siblings; nil if they are not asked for
	calls  [2]*call // these
	parent parentState

	created string
	first   bool // the new znode has the number 0: its parent has had no child before
	stat    Stat
}

// parentState is what the request for the parent that goes along with a try has shown.
type parentState int

const (
	parentUnasked parentState = iota // there is no such request
	parentUnknown
	parentCreated
	parentThere
)

func (f *Framework) newCreation(path string, data []byte, opts []CreateOption) (*creation, error) {
	c := &creation{f: f, path: path, target: path}
	err := c.cfg.apply(opts)
	if err == nil {
		err = f.creatable(path, c.cfg.mode)
	}
	if err == nil {
		c.data, err = f.stored(path, data, &c.cfg.compression)
	}
	if err == nil && c.cfg.acl == nil {
		c.cfg.acl = f.cfg.defaultACL(f.root.below(path))
	}
	return c, err
}

func (c *creation) plan() plan {
	if c.cfg.protected {
		return plan{common: c.cfg.common, attempt: c.protect, settle: c.settle, repeatable: true}
	}
	return plan{common: c.cfg.common, attempt: c.attempt, repeatable: c.cfg.idempotent}
}

func (f *Framework) creatable(path string, mode CreateMode) error {
	if path == "/" && !mode.isSequential() {
		return fmt.Errorf("%w %q: the root always exists", ErrInvalidPath, path)
	}
	// A name that is not valid by itself may be with the number.
	if _, name := SplitPath(path); path != "" && mode.isSequential() && (name == "" || name == "." || name == "..") {
		path += "0"
	}
	_, err := f.root.writable(path)
	return err
}

// errAgain means that the tree has changed between two requests of one try, which must
// start again.
var errAgain = errors.New("again")

// attempt sends the request, creates missing parents, and treats an existing znode as the
// options say.
func (c *creation) attempt(ctx context.Context) error {
	folder := c.foresee()
	for {
		err := c.f.exchange(ctx, c.requests()...)
		if folder != "" {
			c.learnOfParent(folder, err)
		}
		if !c.cfg.mode.isSequential() {
			err = c.f.foundInstead(ctx, c.f.root.below(c.target), err)
		}
		switch {
		case c.created != "" && c.parent != parentUnasked && c.cfg.siblings != nil:
			return c.listAfter(ctx)
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
		c.parent, folder = parentUnasked, ""
	}
}

// makesParents reports whether a missing parent must be created: with the option, or if it
// is the view's namespace.
func (c *creation) makesParents() bool {
	parent, _ := SplitPath(c.target)
	return c.cfg.parents || parent == "/" && c.f != c.f.base
}

// listAfter fills in the siblings of a znode that was created along with its parent. A new
// parent has no other children when it gives the first number. (Before ZooKeeper 3.6 the
// numbers of an old parent come to 0 again.)
func (c *creation) listAfter(ctx context.Context) error {
	if c.parent == parentCreated && c.first {
		_, name := SplitPath(c.created)
		*c.cfg.siblings = []string{name}
		return nil
	}
	// The znode is there, even if the list fails.
	_ = c.f.exchange(ctx, c.list)
	return nil
}

// requests returns what one try sends: the parent's creation if that is expected to be
// missing, the creation and, if asked for, the list. A list that listAfter can do without is
// left out.
func (c *creation) requests() []*call {
	asked := c.f.root.below(c.target)
	parent, _ := SplitPath(c.target)
	folder := c.f.root.full(parent)
	e := wire.NewEncoder(len(asked) + len(c.data) + len(folder) + 72) // for both
	appendCreate(e, asked, c.data, &c.cfg)
	n := len(e.Bytes())
	if c.cfg.siblings != nil {
		e.String(folder)
		e.Bool(false) // no watch
	}
	both := e.Bytes()
	c.create = call{
		operation: c.cfg.mode.operation(), path: c.path, body: both[:n:n],
		decode: func(d *wire.Decoder) error {
			full := d.String()
			c.stat = d.Stat()
			// Checked, because the caller may delete the path that it gets.
			number, ok := strings.CutPrefix(full, asked)
			if !ok || (number != "") != c.cfg.mode.isSequential() || strings.Contains(number, "/") {
				d.Reject(fmt.Sprintf("%q as the path of the node %q", full, asked))
			}
			if d.Err() == nil {
				c.created, c.first = c.f.root.own(full), number == "0000000000"
			}
			return nil
		},
	}
	// With protection the reply counts even after the caller has gone.
	if c.sent != nil {
		c.create.follower = c.sent
	}
	if c.cfg.siblings != nil {
		*c.cfg.siblings = nil
		c.list = &call{operation: opChildren, path: parent, body: both[n:], decode: c.listed}
	}
	c.calls = [...]*call{&c.create, c.list}
	switch {
	case c.parent != parentUnasked:
		return []*call{c.parentCall(), &c.create}
	case c.cfg.siblings == nil:
		return c.calls[:1]
	default:
		return c.calls[:]
	}
}

// listed reads the list of the siblings.
func (c *creation) listed(d *wire.Decoder) error {
	names := d.Strings()
	d.Stat()
	if d.Err() == nil {
		*c.cfg.siblings = names
	}
	return nil
}

func encodeCreate(full string, data []byte, cfg *createConfig) []byte {
	e := wire.NewEncoder(len(full) + len(data) + 64)
	appendCreate(e, full, data, cfg)
	return e.Bytes()
}

func appendCreate(e *wire.Encoder, full string, data []byte, cfg *createConfig) {
	e.String(full)
	e.Buffer(data)
	e.ACL(cfg.acl)
	e.Int32(int32(cfg.mode))
	// The other requests end here.
	if cfg.mode.hasTTL() {
		e.Int64(cfg.ttl.Milliseconds())
	}
}
