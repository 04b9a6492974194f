package framework

import (
	"context"
	"fmt"
	"strings"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
)

// Protected names are Curator's (ProtectedUtils): prefix, UUID with dashes, dash.
const (
	protectedPrefix    = "_c_"
	protectedPrefixLen = len(protectedPrefix) + 36 + 1
)

// IsProtectedName tells whether the name of a znode, or the last name of a path,
// was made by [WithProtection], here or in Java. A name that ends with the UUID and its
// dash is none, as in Java: something was protected.
func IsProtectedName(name string) bool {
	_, name = SplitPath("/" + name)
	if len(name) <= protectedPrefixLen || !strings.HasPrefix(name, protectedPrefix) || name[protectedPrefixLen-1] != '-' {
		return false
	}
	return uuid.Validate(name[len(protectedPrefix):protectedPrefixLen-1]) == nil
}

// permanentInDoubt keeps a write from being repeated when its outcome is unknown.
func permanentInDoubt(attempt func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := attempt(ctx)
		if OutcomeUnknown(err) {
			return backoff.Permanent(err)
		}
		return err
	}
}

// createProtected creates under a name that can be found again.
func (c *creation) createProtected(ctx context.Context) error {
	parent, name := SplitPath(c.path)
	var prefix string // of the node that may exist, "" when certainly none does
	err := c.f.measured(ctx, c.cfg.retry, opCreate, c.path, func(ctx context.Context) error {
		if err := c.cfg.session.over(); err != nil {
			return err // also in place of the search
		}
		if prefix != "" {
			found, err := c.find(ctx, parent, prefix)
			if err != nil || found {
				return err
			}
		}
		prefix = ""
		unique := protectedPrefix + uuid.NewString() + "-"
		c.target = JoinPath(parent, unique+name)
		err := c.attempt(ctx)
		if OutcomeUnknown(err) {
			prefix = unique
		}
		return err
	})
	if err == nil || prefix == "" {
		return err
	}
	c.f.janitor.add(func(ctx context.Context) error { return c.f.findAndDelete(ctx, parent, prefix) })
	if !OutcomeUnknown(err) { // it is that of the search
		err = fmt.Errorf("%w: %w", errOutcomeUnknown, err)
	}
	return &OpError{opCreate.name, c.path, fmt.Errorf("%w: %w", ErrCleanupPending, err)}
}

// find looks for the node that an earlier try may have created. One that belongs
// to a session which is no longer ours is about to vanish: it is deleted and never
// taken for ours (CURATOR-498). When there is none, none will come: the server has
// dealt with everything the session sent before.
func (c *creation) find(ctx context.Context, parent, prefix string) (bool, error) {
	path, err := c.f.findProtected(ctx, parent, prefix)
	if err != nil || path == "" {
		return false, err
	}
	var stat *Stat
	read, err := readExists(path, &stat, readConfig{}).build(c.f)
	if err != nil {
		return false, err
	}
	if err := c.f.exchange(ctx, read); err != nil || stat == nil {
		return false, err
	}
	if c.cfg.mode.isEphemeral() && stat.EphemeralOwner != c.owner() {
		c.f.janitor.add(func(ctx context.Context) error { return c.f.findAndDelete(ctx, parent, prefix) })
		return false, nil
	}
	c.created, c.stat = path, *stat
	if c.cfg.siblings != nil {
		*c.cfg.siblings = nil
	}
	return true, nil
}

// owner is the session that an ephemeral node of this creation must belong to.
func (c *creation) owner() int64 {
	if c.cfg.session != nil {
		return c.cfg.session.ID()
	}
	return c.f.Session().ID()
}

// findProtected returns the path of the child with this prefix, "" when there is
// none. The sync goes first in the same write: the server that is asked may not
// yet have applied what another one has accepted.
func (f *Framework) findProtected(ctx context.Context, parent, prefix string) (string, error) {
	sync, err := f.syncCall(parent)
	if err != nil {
		return "", err
	}
	var names []string
	list, err := ReadChildren(parent, &names).build(f)
	if err != nil {
		return "", err
	}
	list.absent = func() { names = nil }
	if err := f.exchange(ctx, sync, list); err != nil {
		return "", err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			return JoinPath(parent, name), nil
		}
	}
	return "", nil
}

// findAndDelete deletes the node with this prefix, if there is one.
func (f *Framework) findAndDelete(ctx context.Context, parent, prefix string) error {
	path, err := f.findProtected(ctx, parent, prefix)
	if err != nil || path == "" {
		return err
	}
	remove, err := f.deleteCall(path, AnyVersion)
	if err != nil {
		return err
	}
	return f.exchange(ctx, remove)
}
