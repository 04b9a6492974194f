package framework

import (
	"errors"
	"fmt"
	"time"
)

// createConfig is what the options of Create set.
type createConfig struct {
	common
	mode        CreateMode
	ttl         time.Duration
	acl         []ACL // nil for the list of the client's ACLProvider
	aclParents  bool
	parents     bool
	parentsAs   CreateMode
	protected   bool
	orSet       bool
	setVersion  int32
	idempotent  bool
	compression compression
	stat        *Stat
	newStat     **Stat // of a bulk
	siblings    *[]string
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

// WithTTL sets the time to live of a mode with TTL: the server deletes the znode when it
// has had no children and no change for that long. It is required for those modes and
// refused for others. Unit: whole milliseconds, up to 2^40 - 1.
func WithTTL(ttl time.Duration) CreateOption {
	return createOption(func(c *createConfig) error {
		if ttl < time.Millisecond || ttl > maxTTL {
			return fmt.Errorf("time to live %v, expected 1ms to %v", ttl, maxTTL)
		}
		c.ttl = ttl
		return nil
	})
}

// WithACL sets the access control list of the znode and, with [ApplyingACLToParents], of
// the parents that are created with it. Default: the list of the client's [ACLProvider] for
// each path; without [WithACLProvider] every client may do everything.
func WithACL(acl ...ACL) CreateOption {
	return createOption(func(c *createConfig) error {
		if len(acl) == 0 {
			return errors.New("WithACL(), expected one entry or more")
		}
		c.acl = acl
		return nil
	})
}

// ApplyingACLToParents applies the list of [WithACL], which is required, to the parents that
// are created with the znode as well. Deleting a znode requires permission on its parent, so
// without this option the list protects only the data. It is Curator's withACL(list, true).
func ApplyingACLToParents() CreateOption {
	return createOption(func(c *createConfig) error { c.aclParents = true; return nil })
}

// ParentsOption is returned by [CreatingParentsIfNeeded] and
// [CreatingParentContainersIfNeeded].
type ParentsOption struct{ mode CreateMode }

// CreatingParentsIfNeeded creates missing parents as persistent znodes without data. With
// [Framework.Exists] it creates the parents of a missing znode.
func CreatingParentsIfNeeded() ParentsOption { return ParentsOption{Persistent} }

// CreatingParentContainersIfNeeded creates missing parents as containers, which
// the server deletes some time after their last child. It is what all recipes
// use.
func CreatingParentContainersIfNeeded() ParentsOption { return ParentsOption{Container} }

//nolint:unparam // other options can fail
func (o ParentsOption) applyCreate(c *createConfig) error {
	c.parents, c.parentsAs = true, o.mode
	return nil
}

// WithProtection makes the create safe against a lost reply, which would otherwise hide the
// name of a sequential znode from the client. The name gets the prefix "_c_", a UUID and
// "-", as in Curator. After a try whose outcome is unknown the client looks for that name
// before it tries again. If it gives up in doubt, it deletes the znode in the background,
// and the error matches [ErrCleanupPending]. After Close, or without permission to list the
// parent, the client cannot delete the znode: then the error only matches [OutcomeUnknown].
//
// The create waits for up to a second while 32 or more background deletions are pending
// below the same parent.
func WithProtection() CreateOption {
	return createOption(func(c *createConfig) error { c.protected = true; return nil })
}

// OrSetData sets the data of an existing znode instead of failing; with [WithVersion] only
// if its data has that version. The existing znode keeps its mode and its access control
// list, and StoringStatIn stores its new Stat. If other clients create or delete the znode
// during the call, the call continues until the create or the set succeeds (CURATOR-719).
// OrSetData is refused for sequential modes and [WithProtection], whose names are always
// new.
func OrSetData(version ...VersionOption) CreateOption {
	return createOption(func(c *createConfig) error {
		if len(version) > 1 {
			return fmt.Errorf("OrSetData with %d versions, expected one or none", len(version))
		}
		c.orSet, c.setVersion = true, AnyVersion
		if len(version) == 1 {
			c.setVersion = int32(version[0])
		}
		return nil
	})
}

// ListingSiblingsIn also lists the children of the parent, in the same write and after the
// creation, so that both take one round trip together. The list includes the new znode. No
// list is asked for if the parent was created in the same write and the znode is its first
// child. The list is nil if the znode was created but the list failed, and if the znode was
// created by an earlier try or existed before: call [Framework.Children] then.
func ListingSiblingsIn(names *[]string) CreateOption {
	return siblingsOption{names}
}

type siblingsOption struct{ names *[]string }

func (o siblingsOption) applyCreate(c *createConfig) error {
	if o.names == nil {
		return errors.New("ListingSiblingsIn(nil), expected a place for the names")
	}
	c.siblings = o.names
	return nil
}

// apply sets what the options say.
func (c *createConfig) apply(opts []CreateOption) error {
	if err := applyAll(opts, func(o CreateOption) error { return o.applyCreate(c) }); err != nil {
		return err
	}
	if err := c.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidOption, err)
	}
	return nil
}

func (c *createConfig) validate() error {
	newName := c.protected || c.mode.isSequential()
	switch {
	// Either alone is a mistake: a mode without its time, or a time without its mode.
	case c.mode.hasTTL() != (c.ttl != 0):
		return fmt.Errorf("create mode %d with time to live %v", c.mode, c.ttl)
	case newName && c.orSet:
		return errors.New("OrSetData with WithProtection or a sequential mode, whose name is always new")
	case newName && c.idempotent:
		return errors.New("Idempotent with WithProtection or a sequential mode, whose name is always new")
	case c.aclParents && (c.acl == nil || !c.parents):
		return errors.New("ApplyingACLToParents without WithACL or without CreatingParentsIfNeeded")
	default:
		return nil
	}
}
