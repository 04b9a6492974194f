// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/janitor"
	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/callscope"
	"github.com/gocurator/curator/internal/chance"
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

// protect makes a try under a name that can be found again.
func (c *creation) protect(ctx context.Context) error {
	parent, _ := SplitPath(c.path)
	if c.doubt != nil {
		// Look first: a second create under a new name would leave the first one behind.
		found, err := c.find(ctx)
		if err != nil || found {
			return err
		}
	}
	c.doubt = nil
	if err := c.admit(ctx, parent); err != nil {
		return err
	}
	outcome := janitor.Failed
	defer func() { // even after a panic of user code
		if c.doubt == nil || ctx.Err() == nil { // else settle adds the cleanup first
			c.leave(outcome)
		}
	}()
	c.sent = newUndecided(c.path, callscope.Holder(ctx), c.f.chance)
	c.target = c.sent.target
	err := c.attempt(ctx)
	switch {
	case err == nil:
		outcome = janitor.Answered
	case OutcomeUnknown(err):
		c.doubt = c.sent
	}
	return err
}

// admit waits until few enough creations of this client are under way in the folder.
func (c *creation) admit(ctx context.Context, parent string) error {
	for c.admitted == "" {
		// Here, because a creation without a connection must not take the room.
		if err := c.f.awaitConnection(ctx, c.f.cfg.ConnectTimeout); err != nil {
			return &OpError{opCreate.name, c.path, err}
		}
		if folder := c.f.root.full(parent); c.f.janitor.Admit(ctx, folder) {
			c.admitted = folder
		}
	}
	return nil
}

// leave lets another creation follow this one.
func (c *creation) leave(o janitor.Outcome) {
	if c.admitted != "" {
		c.f.janitor.Leave(c.admitted, o)
		c.admitted = ""
	}
}

// settle cleans up when all tries under protection have failed in doubt.
func (c *creation) settle(err error) error {
	defer c.leave(janitor.Abandoned) // after its cleanup was added
	if c.doubt == nil {
		return err
	}
	unsearchable := errors.Is(err, errUnsearchable)
	err = reasonOf(err)
	if !OutcomeUnknown(err) { // the search for the node has failed, not the create
		err = fmt.Errorf("%w: %w", errOutcomeUnknown, err)
	}
	// After Close, or when the folder must not be listed, nothing looks for the node. An
	// ephemeral one goes with its session.
	parent, _ := c.doubt.named()
	if !unsearchable && c.f.janitor.Add(c.f.root.full(parent), c.doubt.cleanup(c.f)) {
		err = fmt.Errorf("%w: %w", ErrCleanupPending, err)
	}
	return &OpError{opCreate.name, c.path, err}
}

// undecided is a protected create that may be abandoned before its reply comes. The reply
// then decides; the node must be searched for only when the connection is lost.
type undecided struct {
	target string // the path of the request

	mu      sync.Mutex
	sent    bool          // a request was sent
	settled bool          // its reply has come, or none will
	reply   conduit.Reply // the reply, once it is settled
	err     error         // why there is none
	replied chan struct{} // closed when it is settled; nil until the outcome is waited for
}

// newUndecided returns a create of path under a new protected name. The holder is the name of the znode under whose lease it
// happens, "" if there is none.
func newUndecided(path, holder string, draw *chance.Source) *undecided {
	_, name := SplitPath(path)
	b := make([]byte, 0, 256)
	b = append(b, path[:len(path)-len(name)]...)
	b = appendProtected(b, draw.ID(path), holder)
	b = append(b, name...)
	return &undecided{target: string(b)}
}

// named returns the folder of the znode, and the part of its name that no other has.
func (u *undecided) named() (parent, prefix string) {
	parent, name := SplitPath(u.target)
	return parent, name[:protectedPrefixLen]
}

// appendProtected appends the prefix of a protected name with a UUID of the random bits id. The UUID is
// made here because package uuid allocates for each.
//
// Under a lease the UUID is of version 8, and begins with the last 48 bits of the UUID of the lease's
// znode. So the names of znodes show which owner waits for one lock while it holds another; see
// inspect.Deadlocks. 74 bits are random.
func appendProtected(b []byte, id uuid.UUID, holder string) []byte {
	id[6] = id[6]&0x0f | 0x40 // version 4
	if IsProtectedName(holder) {
		before := uuid.MustParse(holder[len(protectedPrefix) : protectedPrefixLen-1])
		copy(id[:6], before[10:])
		id[6] = id[6]&0x0f | 0x80 // version 8
	}
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	b = append(b, protectedPrefix...)
	for _, part := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		b = append(hex.AppendEncode(b, part), '-')
	}
	return b
}

// begin is called before each request for the create, and returns a function for its
// reply. Only the last request can be in doubt.
func (u *undecided) begin() func(conduit.Reply, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent, u.settled = true, false
	return u.settle
}

// deliver does nothing: the reply itself decides.
func (u *undecided) deliver(bool) {}

// settle notes the reply to the last request, or why none will come.
func (u *undecided) settle(reply conduit.Reply, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.settled, u.reply, u.err = true, reply, err
	if u.replied != nil {
		close(u.replied)
	}
}

// cleanup deletes the node, if there is one.
func (u *undecided) cleanup(f *Framework) janitor.Cleanup {
	return func(ctx context.Context) error {
		path, unknown, err := u.outcome(ctx, f.root)
		if unknown && err == nil {
			// No reply decides, so the folder must be searched.
			path, err = f.findProtected(ctx, u)
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
func (u *undecided) outcome(ctx context.Context, root chroot) (path string, unknown bool, err error) {
	u.mu.Lock()
	if !u.sent {
		u.mu.Unlock()
		return "", true, nil
	}
	if u.replied == nil {
		u.replied = make(chan struct{})
		if u.settled {
			close(u.replied)
		}
	}
	replied := u.replied
	u.mu.Unlock()
	select {
	case <-replied:
	case <-ctx.Done():
		return "", false, interrupted(ctx)
	}
	path, unknown = u.created(root)
	return path, unknown, nil
}

// created returns the path in the reply, or "" if nothing was created, and whether no
// readable reply has come. A reply decides, even a refusal, unless the server is in doubt itself.
func (u *undecided) created(root chroot) (path string, unknown bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil || u.reply.Code != 0 {
		return "", u.err != nil || leavesDoubt(u.reply.Code)
	}
	d := wire.NewDecoder(u.reply.Body)
	path = root.own(d.String())
	_, name := SplitPath(path)
	_, prefix := u.named()
	return path, d.Err() != nil || !strings.HasPrefix(name, prefix)
}

// find looks for the node that an earlier try may have created. A node of an earlier
// session is about to vanish: find deletes it and never reports it as found
// (CURATOR-498). If there is no node, none will come: the server has processed everything
// the session sent before.
func (c *creation) find(ctx context.Context) (bool, error) {
	path, err := c.f.findProtected(ctx, c.doubt)
	if err != nil || path == "" {
		return false, err
	}
	var stat *Stat
	if err := c.f.readOnce(ctx, readExists(path, &stat, callConfig{})); err != nil || stat == nil {
		return false, err
	}
	// It would vanish under the caller when its session times out.
	if c.cfg.mode.isEphemeral() && stat.EphemeralOwner != c.owner() {
		// Refused only when the client is closed: the node vanishes with its session.
		_ = c.f.Delete(ctx, path, InBackground())
		return false, nil
	}
	c.made(path, *stat)
	if c.cfg.siblings != nil {
		*c.cfg.siblings = nil
	}
	return true, nil
}

// findProtected returns the path of the znode that a create has made, "" when there is
// none. Calls that search the same folder share a list.
func (f *Framework) findProtected(ctx context.Context, u *undecided) (string, error) {
	parent, prefix := u.named()
	search := f.searches.Join(f.root.full(parent), func() (map[string]string, error) { return f.protectedNames(parent) })
	if search == nil {
		return "", ErrClosed
	}
	select {
	case <-search.Done():
	case <-ctx.Done():
		return "", interrupted(ctx)
	}
	name, err := search.Find(prefix)
	if err != nil || name == "" {
		return "", err
	}
	return JoinPath(parent, name), nil
}

// protectedNames returns the protected names in a folder by their prefixes. A sync goes
// first in the same write: this server may not yet have applied what another has accepted.
func (f *Framework) protectedNames(parent string) (map[string]string, error) {
	sync, err := pathCall(f.root, opSync, parent, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	list, err := f.listCall(parent, &names)
	if err != nil {
		return nil, err
	}
	// In the client's context, because the search serves more callers than the first one.
	if err := f.exchange(f.ctx, append(sync, list)...); isReply(err, ErrNoAuth) {
		return nil, fmt.Errorf("%w: %w", errUnsearchable, err)
	} else if err != nil {
		return nil, err
	}
	byPrefix := make(map[string]string)
	for _, name := range names {
		if IsProtectedName(name) {
			byPrefix[name[:protectedPrefixLen]] = name
		}
	}
	return byPrefix, nil
}

// sequenceDigits is the number of characters that the server appends to a sequential
// znode's name: ten, including a minus sign, or eleven if the number does not fit.
const sequenceDigits = 10

// SequenceNumber returns the number that the server has given to a sequential znode. ok
// reports whether the name has one. The name may be a path. prefix is the last name of the
// path given to Create, without the prefix of [WithProtection]. It is needed because
// "job-1000000000" may be a number after "job-", or a negative one after "job".
//
// The number is a signed 32-bit counter for each parent. Before ZooKeeper 3.6 it wraps from
// 2147483647 to -2147483648, so compare numbers with [CompareSequence]. Since 3.6 it stays
// at 2147483647, which no longer orders znodes. Curator's ZKPaths.extractSequentialSuffix
// takes the last ten characters, whatever they are.
func SequenceNumber(name, prefix string) (number int32, ok bool) {
	_, name = SplitPath("/" + name)
	if IsProtectedName(name) && !strings.HasPrefix(prefix, protectedPrefix) {
		name = name[protectedPrefixLen:]
	}
	digits, ok := strings.CutPrefix(name, prefix)
	// ParseInt accepts a plus sign, which no server writes.
	if !ok || len(digits) < sequenceDigits || digits[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	// More digits than the number needs belong to the name in front of it.
	if err != nil || len(digits) != max(sequenceDigits, len(strconv.FormatInt(n, 10))) {
		return 0, false
	}
	return int32(n), true
}

// CompareSequence returns a negative number if the znode with number a was created before
// the znode with number b, a positive number if after, and 0 for equal numbers. The result
// is right across the wrap of the counter if fewer than 2^31 znodes were created between
// the two (RFC 1982).
func CompareSequence(a, b int32) int { return int(a - b) }
