// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
)

// Option is a setting of a [PersistentNode].
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	protected bool
	orphan    bool // parents are not created
	acl       []framework.ACL
	ttl       time.Duration
	stays     bool // Close leaves the znode
	edited    func(data []byte) bool
}

func newConfig(opts []Option) (config, error) {
	var c config
	err := options.Apply(opts, func(o Option) error { return o.apply(&c) })
	return c, err
}

// WithProtection gives the znode a name of its own, "_c_", a UUID, "-" and the
// name asked for, as [framework.WithProtection] does. No other client ever has
// a znode of that name.
func WithProtection() Option {
	return optionFunc(options.Plain(func(c *config) { c.protected = true }))
}

// WithoutParents does not create missing parents of the znode. While they are
// missing the node is not created, and [PersistentNode.Err] says so.
func WithoutParents() Option {
	return optionFunc(options.Plain(func(c *config) { c.orphan = true }))
}

// WithACL sets the access control list of the znode. Default: as
// [framework.WithACL].
func WithACL(acl ...framework.ACL) Option {
	return optionFunc(options.Checked(len(acl) > 0, func(c *config) { c.acl = slices.Clone(acl) }, "WithACL(), expected one entry or more"))
}

// WithTTL sets the time to live of a mode that has one. It is required for these
// modes, and refused for all other modes. It is 1 to 2^40 - 1 milliseconds; fractions of
// one are dropped.
func WithTTL(ttl time.Duration) Option {
	return optionFunc(options.Checked(ttl >= time.Millisecond && ttl <= maxTTL, func(c *config) { c.ttl = ttl },
		"time to live %v, expected 1ms to %v", ttl, maxTTL))
}

// maxTTL is the longest time to live that [framework.WithTTL] takes.
const maxTTL = (1<<40 - 1) * time.Millisecond

// WithEdits calls edited when another client has written to the znode, such as an operator. If edited returns true,
// the node takes over the data: the znode is created again with it. The next [PersistentNode.SetData]
// replaces it. A znode that another client has put in its place is no write, and gets the node's data. A write to a
// znode that ends before this client has heard of the write is lost. edited must not block, and must not call
// the node. Each write of another client costs one read. Default: such a write stays only until the znode is
// created again.
func WithEdits(edited func(data []byte) bool) Option {
	return optionFunc(options.Checked(edited != nil, func(c *config) { c.edited = edited },
		"WithEdits(nil), expected a function that is told what another client has written"))
}

// kind is what a create mode means for a node.
type kind struct {
	mode       framework.CreateMode
	plain      framework.CreateMode // the mode without a number, for a name that is known
	sequential bool
	ephemeral  bool
}

var kinds = []kind{
	{framework.Persistent, framework.Persistent, false, false},
	{framework.PersistentSequential, framework.Persistent, true, false},
	{framework.PersistentWithTTL, framework.PersistentWithTTL, false, false},
	{framework.PersistentSequentialWithTTL, framework.PersistentWithTTL, true, false},
	{framework.Container, framework.Container, false, false},
	{framework.Ephemeral, framework.Ephemeral, false, true},
	{framework.EphemeralSequential, framework.Ephemeral, true, true},
}

// newKind checks that a mode and a time to live go together.
func newKind(mode framework.CreateMode, ttl time.Duration) (kind, error) {
	for _, k := range kinds {
		if k.mode != mode {
			continue
		}
		if hasTTL := k.plain == framework.PersistentWithTTL; hasTTL != (ttl != 0) {
			return k, fmt.Errorf("create mode %d with time to live %v, expected WithTTL for the modes that have one, and only for them", mode, ttl)
		}
		return k, nil
	}
	return kind{}, fmt.Errorf("create mode %d, expected one of the seven modes of package framework", mode)
}
