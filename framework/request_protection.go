package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/janitor"
	"github.com/gocurator/curator/framework/internal/wire"
)

// Protected names are Curator's (ProtectedUtils): prefix, UUID with dashes, dash.
const (
	protectedPrefix    = "_c_"
	protectedPrefixLen = len(protectedPrefix) + 36 + 1
)

// IsProtectedName reports whether the name of a znode, or the last name of a path, was made
// by [WithProtection], here or in Java. As in Java, something must follow the UUID and its
// dash.
func IsProtectedName(name string) bool {
	_, name = SplitPath("/" + name)
	if len(name) <= protectedPrefixLen || !strings.HasPrefix(name, protectedPrefix) || name[protectedPrefixLen-1] != '-' {
		return false
	}
	return uuid.Validate(name[len(protectedPrefix):protectedPrefixLen-1]) == nil
}

// protect returns an attempt that creates under a name that can be found again, and a
// settle that cleans up when all attempts have failed in doubt.
func (c *creation) protect() (attempt func(context.Context) error, settle func(error) error) {
	parent, name := SplitPath(c.path)
	folder := c.f.root.full(parent)
	var doubt *undecided // the node that may exist; nil when certainly none does
	attempt = func(ctx context.Context) error {
		if doubt != nil {
			// Look first: a second create under a new name would leave the first one behind.
			found, err := c.find(ctx, parent, doubt.prefix)
			if err != nil || found {
				return err
			}
		}
		doubt = nil
		c.f.janitor.Admit(ctx, folder)
		c.sent = newUndecided(parent)
		c.target = JoinPath(parent, c.sent.prefix+name)
		err := c.attempt(ctx)
		if OutcomeUnknown(err) {
			doubt = c.sent
		}
		return err
	}
	settle = func(err error) error {
		if doubt == nil {
			return err
		}
		unsearchable := errors.Is(err, errUnsearchable)
		err = reasonOf(err)
		if !OutcomeUnknown(err) { // the search for the node has failed, not the create
			err = fmt.Errorf("%w: %w", errOutcomeUnknown, err)
		}
		// After Close, or when the folder must not be listed, nothing looks for the node. An
		// ephemeral one goes with its session.
		if !unsearchable && c.f.janitor.Add(folder, doubt.cleanup(c.f)) {
			err = fmt.Errorf("%w: %w", ErrCleanupPending, err)
		}
		return &OpError{opCreate.name, c.path, err}
	}
	return attempt, settle
}

// undecided is a protected create that may be abandoned before its reply comes. The reply
// then decides; the node must be searched for only when the connection is lost.
type undecided struct {
	parent string
	prefix string

	mu      sync.Mutex
	replied chan struct{} // closed with the reply, or when none will come; nil while nothing was sent
	created string        // the path in the reply; "" for none
	unknown bool          // no readable reply has come
}

func newUndecided(parent string) *undecided {
	return &undecided{parent: parent, prefix: protectedPrefix + uuid.NewString() + "-", unknown: true}
}

// begin is called before each request for the create, and returns a function for its
// reply. Only the last request can be in doubt.
func (u *undecided) begin(root chroot) func(conduit.Reply, error) {
	replied := make(chan struct{})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replied = replied
	return func(reply conduit.Reply, err error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		// A reply decides, even one that refuses: only its absence leaves doubt.
		u.created, u.unknown = "", err != nil
		if err == nil && reply.Code == 0 {
			d := wire.NewDecoder(reply.Body)
			u.created = root.own(d.String())
			_, name := SplitPath(u.created)
			u.unknown = d.Err() != nil || !strings.HasPrefix(name, u.prefix)
		}
		close(replied)
	}
}

// cleanup deletes the node, if there is one.
func (u *undecided) cleanup(f *Framework) janitor.Cleanup {
	return func(ctx context.Context) error {
		path, unknown, err := u.outcome(ctx)
		if unknown && err == nil {
			// No reply decides, so the folder must be searched.
			path, err = f.findProtected(ctx, u.parent, u.prefix)
		}
		if err != nil || path == "" {
			return err
		}
		remove, err := f.deleteCall(path, AnyVersion)
		if err != nil {
			return err
		}
		return f.exchange(ctx, remove)
	}
}

// outcome waits for the reply. The wait is bounded, because a silent connection ends.
func (u *undecided) outcome(ctx context.Context) (path string, unknown bool, err error) {
	u.mu.Lock()
	replied := u.replied
	u.mu.Unlock()
	if replied == nil {
		return "", true, nil // nothing was sent
	}
	select {
	case <-replied:
	case <-ctx.Done():
		return "", false, interrupted(ctx)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.created, u.unknown, nil
}

// find looks for the node that an earlier try may have created. A node of an earlier
// session is about to vanish: find deletes it and never reports it as found
// (CURATOR-498). If there is no node, none will come: the server has processed everything
// the session sent before.
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
	// It would vanish under the caller when its session times out.
	if c.cfg.mode.isEphemeral() && stat.EphemeralOwner != c.owner() {
		// Refused only when the client is closed: the node vanishes with its session.
		_ = c.f.Delete(ctx, path, InBackground())
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
