package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
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

// protect returns how to create under a name that can be found again, and what becomes of
// the node when that has failed in doubt.
func (c *creation) protect() (attempt func(context.Context) error, settle func(error) error) {
	parent, name := SplitPath(c.path)
	folder := c.f.root.full(parent)
	var doubt *undecided // the node that may exist, nil when certainly none does
	attempt = func(ctx context.Context) error {
		if doubt != nil {
			found, err := c.find(ctx, parent, doubt.prefix)
			if err != nil || found {
				return err
			}
		}
		doubt = nil
		c.f.janitor.admit(ctx, folder)
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
		if !OutcomeUnknown(err) { // it is that of the search
			err = fmt.Errorf("%w: %w", errOutcomeUnknown, err)
		}
		// After Close, or when the folder must not be listed, nothing will look for the node:
		// an ephemeral one goes with its session.
		if !unsearchable && c.f.janitor.add(folder, doubt.cleanup(c.f)) {
			err = fmt.Errorf("%w: %w", ErrCleanupPending, err)
		}
		return &OpError{opCreate.name, c.path, err}
	}
	return attempt, settle
}

// undecided is a protected create that may be given up before its reply comes. The
// reply decides then: only when the connection is lost has the node to be searched for.
type undecided struct {
	parent string
	prefix string

	mu      sync.Mutex
	replied chan struct{} // closed with the reply, or when none will come; nil while nothing was sent
	created string        // the path, when the reply said so; "" for none
	unknown bool          // no reply that could be read has come
}

func newUndecided(parent string) *undecided {
	return &undecided{parent: parent, prefix: protectedPrefix + uuid.NewString() + "-", unknown: true}
}

// begin is called before each request for the create, of which only the last can be in
// doubt, and returns what to call with its reply.
func (u *undecided) begin(root chroot) func(conduit.Reply, error) {
	replied := make(chan struct{})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replied = replied
	return func(reply conduit.Reply, err error) {
		u.mu.Lock()
		defer u.mu.Unlock()
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
func (u *undecided) cleanup(f *Framework) cleanup {
	return func(ctx context.Context) error {
		path, unknown, err := u.outcome(ctx)
		if unknown && err == nil {
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

// outcome waits for the reply. Connections that are silent end, and with them the wait.
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
		// Refused when the client is closed: the node vanishes by itself.
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
