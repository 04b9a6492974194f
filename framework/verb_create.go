// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
)

// Create creates a znode and returns its path, which differs from the path argument for the
// sequential modes and with [WithProtection]. For a sequential mode the path may end with a
// slash: the name is then the number alone.
//
// Without WithProtection or [Idempotent], Create is not repeated after a try whose outcome
// is unknown, see [OutcomeUnknown].
func (f *Framework) Create(ctx context.Context, path string, data []byte, opts ...CreateOption) (string, error) {
	c := &creation{f: f, path: path, target: path, data: data}
	return c.run(ctx, c.cfg.configureCreate(opts))
}

// run creates the znode, unless there is an error in the options.
func (c *creation) run(ctx context.Context, err error) (string, error) {
	if err == nil {
		err = c.prepare()
	}
	if err := c.f.run(ctx, opCreate, c.path, c.plan(), err); err != nil {
		return "", err
	}
	return c.created, nil
}

// creation is one Create under way.
type creation struct {
	f      *Framework
	cfg    callConfig
	path   string     // as the caller named it
	target string     // the path of this try, which differs with protection
	sent   *undecided // with protection, this try
	doubt  *undecided // with protection, the node that may exist; nil when certainly none does

	admitted string // the folder in which it is under way; "" for none
	data     []byte

	create  call // the request of this try
	created string
}

// made notes the znode. No try follows, so its Stat can be stored.
func (c *creation) made(path string, stat Stat) {
	c.created = path
	if c.cfg.stat != nil {
		*c.cfg.stat = stat
	}
}

// prepare checks the path, and completes what is sent.
func (c *creation) prepare() error {
	err := c.f.creatable(c.path, c.cfg.mode)
	if err == nil {
		c.data, err = c.f.stored(c.path, c.data, &c.cfg.common)
	}
	if err == nil && c.cfg.acl == nil {
		c.cfg.acl = c.f.cfg.defaultACL(c.f.root.below(c.path))
	}
	return err
}

func (c *creation) plan() plan {
	if c.cfg.has(withProtection) {
		return plan{common: c.cfg.common, attempt: c.protect, settles: c, repeatable: true}
	}
	return plan{common: c.cfg.common, attempt: c.attempt, repeatable: c.cfg.has(idempotent)}
}

func (f *Framework) creatable(path string, mode CreateMode) error {
	if path == "/" && !mode.isSequential() {
		return &pathError{path, "it is the root; CreateContainers makes that of a chroot or a namespace"}
	}
	// A name that is not valid without the number may be valid with it.
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
	for {
		err := c.f.exchange(ctx, c.requests(make([]*call, 0, 2))...)
		if !c.cfg.mode.isSequential() {
			err = c.f.foundInstead(ctx, c.f.root.below(c.target), err)
		}
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
				"%w: its parent %s is missing, expected the parent, or CreatingParentsIfNeeded", ErrNoNode, parent)}
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
	return c.cfg.has(creatingParents|creatingParentContainers) || parent == "/" && c.f != c.f.base
}

// requests appends what one try sends: the creation and, if asked for, the list.
func (c *creation) requests(calls []*call) []*call {
	asked := c.f.root.below(c.target)
	parent, _ := SplitPath(c.target)
	folder := c.f.root.full(parent)
	e := wire.NewEncoder(len(asked) + len(c.data) + len(folder) + 48) // for both
	appendCreate(e, asked, c.data, &c.cfg)
	n := len(e.Bytes())
	if c.cfg.siblings != nil {
		e.String(folder)
		e.Bool(false) // no watch
	}
	both := e.Bytes()
	c.create = call{
		operation: c.cfg.mode.operation(), path: c.path, body: both[:n:n],
		decode: func(d wire.Decoder) error {
			full, stat := d.String(), d.Stat()
			stat.DataLength = int32(len(c.data)) // ClickHouse Keeper says 0
			// Checked, because the caller may delete the path that it gets.
			number, ok := strings.CutPrefix(full, asked)
			if !ok || (number != "") != c.cfg.mode.isSequential() || strings.Contains(number, "/") {
				d.Reject(fmt.Sprintf("%q as the path of the node %q", full, asked))
			}
			if d.Err() == nil {
				c.made(c.f.root.own(full), stat)
			}
			return d.Err()
		},
	}
	// With protection the reply counts even after the caller has gone.
	if c.sent != nil {
		c.create.follower = c.sent
	}
	calls = append(calls, &c.create)
	if c.cfg.siblings != nil {
		*c.cfg.siblings = nil
		calls = append(calls, &call{operation: opChildren, path: parent, body: both[n:], decode: c.listed})
	}
	return calls
}

// listed reads the list of the siblings.
func (c *creation) listed(d wire.Decoder) error {
	names := d.Strings()
	d.Stat()
	if d.Err() == nil {
		*c.cfg.siblings = names
	}
	return d.Err()
}

func encodeCreate(full string, data []byte, cfg *callConfig) []byte {
	e := wire.NewEncoder(len(full) + len(data) + 64)
	appendCreate(e, full, data, cfg)
	return e.Bytes()
}

func appendCreate(e *wire.Encoder, full string, data []byte, cfg *callConfig) {
	e.String(full)
	e.Buffer(data)
	e.ACL(cfg.acl)
	e.Int32(int32(cfg.mode))
	// The other requests end here.
	if cfg.mode.hasTTL() {
		e.Int64(cfg.ttl.Milliseconds())
	}
}

// WithMode sets the kind of the znode. Default: [Persistent].
func WithMode(mode CreateMode) CreateOption {
	return value{to: func(c *callConfig) error {
		if mode < Persistent || mode > PersistentSequentialWithTTL {
			return fmt.Errorf("create mode %d, expected one of the seven modes", mode)
		}
		c.given |= withMode
		c.mode = mode
		return nil
	}}
}

// WithTTL sets the time to live of a mode with TTL. The server deletes the znode when it
// has had no children and no change for that long. It is required for these modes, and
// refused for all other modes. Unit: whole milliseconds, up to 2^40 - 1.
func WithTTL(ttl time.Duration) CreateOption {
	return value{to: func(c *callConfig) error {
		if ttl < time.Millisecond || ttl > maxTTL {
			return fmt.Errorf("time to live %v, expected 1ms to %v", ttl, maxTTL)
		}
		c.given |= withTTL
		c.ttl = ttl
		return nil
	}}
}

// WithACL sets the access control list of the znode and, with [ApplyingACLToParents], of
// the parents that are created with it. Default: the list of the client's [ACLProvider] for
// each path; without [WithACLProvider] every client may do everything.
func WithACL(acl ...ACL) CreateOption {
	return value{to: func(c *callConfig) error {
		if len(acl) == 0 {
			return errors.New("WithACL(), expected one entry or more")
		}
		c.given |= withACL
		c.acl = acl
		return nil
	}}
}

// ApplyingACLToParents applies the list of [WithACL], which is required, to the parents that
// are created with the znode as well. Deleting a znode requires permission on its parent, so
// without this option the list protects only the data. A namespace and a chroot that are created
// keep the list of the client's [ACLProvider]. It is Curator's withACL(list, true).
func ApplyingACLToParents() CreateOption { return flag{is: applyingACLToParents} }

// CreatingParentsIfNeeded creates missing parents as persistent znodes without data. With
// [Framework.Exists] it creates the parents of a missing znode. The other reads refuse it.
func CreatingParentsIfNeeded() CreateReadOption {
	return flag{is: creatingParents, not: creatingParentContainers}
}

// CreatingParentContainersIfNeeded creates missing parents as containers, which
// the server deletes some time after their last child. It is what all recipes
// use.
func CreatingParentContainersIfNeeded() CreateReadOption {
	return flag{is: creatingParentContainers, not: creatingParents}
}

// WithProtection makes the create safe against a lost reply, which would otherwise hide the
// name of a sequential znode from the client. The name gets the prefix "_c_", a UUID and
// "-", as in Curator. After a try whose outcome is unknown the client looks for that name
// before it tries again. If it gives up in doubt, it deletes the znode in the background,
// and the error matches [ErrCleanupPending]. After Close, or without permission to list the
// parent, the client cannot delete the znode: then the error only matches [OutcomeUnknown].
//
// A client has at most 32 such creates and background deletions below one parent under way at
// a time, and fewer while callers give up before the answer. Others wait in the client. A create
// whose context ends during that wait is not sent.
func WithProtection() CreateOption { return flag{is: withProtection} }

// OrSetData sets the data of an existing znode instead of failing; with a version only if
// its data has that version. The existing znode keeps its mode and its access control
// list, and StoringStatIn stores its new Stat. If other clients create or delete the znode
// during the call, the call continues until the create or the set succeeds (CURATOR-719).
// OrSetData is refused for sequential modes and [WithProtection], whose names are always
// new.
func OrSetData(version ...int32) CreateOption {
	return value{to: func(c *callConfig) error {
		if len(version) > 1 {
			return fmt.Errorf("OrSetData with %d versions, expected one or none", len(version))
		}
		c.given |= orSetData
		c.version = AnyVersion
		if len(version) == 1 {
			c.version = version[0]
		}
		return nil
	}}
}

// ListingSiblingsIn also lists the children of the parent, in the same write and after the
// creation, so that both take one round trip together. The list includes the new znode. The list is nil if the list failed although the znode was created. It is also nil
// if an earlier try created the znode, or if the znode existed before. Call
// [Framework.Children] then.
func ListingSiblingsIn(names *[]string) CreateOption { return siblingsOption{names: names} }

type siblingsOption struct {
	anyCall
	names *[]string
}

func (o siblingsOption) set(c *callConfig) error {
	return put(c, listingSiblingsIn, &c.siblings, o.names, "a place for the names")
}

// owner is the session that an ephemeral node of this creation must belong to.
func (c *creation) owner() int64 {
	if c.cfg.session != nil {
		return c.cfg.session.ID()
	}
	return c.f.Session().ID()
}
