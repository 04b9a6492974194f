// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/retry"
)

// keeper is the goroutine of a [PersistentNode]: it alone asks the server. Each
// step compares the znode with what it must be, and makes one change, or waits
// when there is none to make.
type keeper struct {
	*PersistentNode

	attempted bool           // a creation was sent, so an existing znode may be ours
	stood     bool           // the znode has been ours, so that what replaces it is not left over
	sessions  map[int64]bool // the sessions in which a creation was sent since the znode was last ours
	pause     attempt.Pause  // since the znode stood with the newest data
	history   int64          // in which the data was written or found, see framework.Framework.History
	seen      framework.Stat // of the znode with that data, zero as far as it is not known
}

// run keeps the znode until ctx ends, then removes it.
func (k *keeper) run(ctx context.Context, stopped chan<- struct{}) {
	defer close(stopped)
	defer k.ended()
	registration := k.client.OnConnectionState(func(s framework.ConnectionState) {
		k.noteState()
		if s.IsConnected() {
			k.nudge() // the new server may grant what the old one refused
		}
	})
	defer func() {
		registration.Remove()
		<-registration.Done()
	}()
	k.noteState()
	k.keep(ctx)
	if !k.cfg.stays {
		k.remove(context.WithoutCancel(ctx))
	}
}

// keep keeps the znode until ctx or the client ends.
func (k *keeper) keep(ctx context.Context) {
	for ctx.Err() == nil {
		err := attempt.Guard(k.client, func() error { return k.step(ctx) })
		if ended := attempt.Ended(k.client); ended != nil {
			k.fail(ended)
			return
		}
		switch {
		case err == nil:
			if k.Err() == nil {
				k.pause.Reset()
			}
		case ctx.Err() != nil:
		default:
			k.fail(err)
			k.rest(ctx, err, nil)
		}
	}
}

// rest waits after a failure, for a reason to look at the znode again, such as a connection. It also
// ends after a pause, because no event says that a quota, for instance, has been raised. As in
// Curator, a missing permission is not tried again, and data that is too large stays so.
func (k *keeper) rest(ctx context.Context, failure error, watch *framework.Watch) {
	if mayPass(failure) || !errors.Is(failure, framework.ErrTooLarge) && !errors.Is(failure, framework.ErrNoAuth) {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, k.pause.Next())
		defer stop()
	}
	k.wait(ctx, watch)
}

// wait blocks until there is a reason to look at the znode again.
func (k *keeper) wait(ctx context.Context, watch *framework.Watch) {
	var fired <-chan struct{}
	if watch != nil {
		fired = watch.Fired()
	}
	select {
	case <-fired:
	case <-k.wake:
	case <-k.client.Done():
	case <-ctx.Done():
	}
}

// step makes one change towards the znode that must be, or waits for a change if
// that is what there is.
func (k *keeper) step(ctx context.Context) error {
	path := k.name()
	if path == "" || !k.attempted {
		return k.create(ctx, path)
	}
	var watch *framework.Watch
	stat, err := k.client.Exists(ctx, path, framework.Watched(&watch))
	if err != nil {
		return err
	}
	defer watch.Cancel()
	switch {
	case stat == nil:
		k.vanished()
		return k.create(ctx, path)
	case !k.fits(stat):
		k.vanished()
		isOwn := k.mayReplace(stat)
		if !isOwn {
			if isOwn, err = k.isRestored(ctx, path, stat); err != nil {
				return err
			}
		}
		if isOwn {
			return k.replace(ctx, path, stat)
		}
		k.fail(taken(stat))
		k.wait(ctx, watch)
		return nil
	}
	history := k.client.History()
	if k.isAnother(stat, history) {
		k.vanished()
	}
	k.stood = true
	clear(k.sessions)
	k.sessions[stat.EphemeralOwner] = true
	isOlder, err := k.compare(ctx, path, history, stat)
	if err != nil {
		return err
	}
	if _, newest, written := k.wanted(); isOlder || written != newest {
		return k.write(ctx, path, history, watch)
	}
	k.stands(path, 0)
	k.wait(ctx, watch)
	return nil
}

// write writes the newest data to the znode, which stands with older data.
func (k *keeper) write(ctx context.Context, path string, history int64, watch *framework.Watch) error {
	data, newest, _ := k.wanted()
	var now framework.Stat
	err := k.client.Set(ctx, path, data, framework.Idempotent(), framework.StoringStatIn(&now))
	switch {
	case err == nil:
		k.history, k.seen = history, now
		k.stands(path, newest)
		return nil
	case errors.Is(err, framework.ErrNoNode):
		return nil // deleted in between, which the next step sees
	}
	k.stands(path, 0)
	if mayPass(err) || ctx.Err() != nil { // keep knows that Close is no failure
		return err
	}
	k.fail(err)
	k.rest(ctx, err, watch) // the znode must be kept even with older data
	return nil
}

// isAnother reports whether another client has deleted the znode, and created one in its place before this one has looked.
func (k *keeper) isAnother(stat *framework.Stat, history int64) bool {
	switch {
	case k.history != history: // compare reads it
		return false
	case k.seen.Czxid == 0: // a transaction does not say which znode it has created
		k.seen.Czxid = stat.Czxid
		return false
	default:
		return k.seen.Czxid != stat.Czxid
	}
}

// compare reads the znode if servers that were restored may have older data, or if another client may have written.
func (k *keeper) compare(ctx context.Context, path string, history int64, stat *framework.Stat) (isOlder bool, err error) {
	data, newest, written := k.wanted()
	restored := k.history != history
	if written != newest || !restored && (k.cfg.edited == nil || k.seen.Version == stat.Version) {
		return false, nil
	}
	var now framework.Stat
	have, err := k.client.Get(ctx, path, framework.StoringStatIn(&now))
	switch {
	case err == nil && !restored && now.Czxid != stat.Czxid: // it is another znode by now, which the watch tells
	case err == nil && bytes.Equal(have, data):
		k.history, k.seen = history, now
	case restored:
		return true, nil
	case err == nil:
		k.seen = now
		k.adopt(have, newest)
	case mayPass(err):
		return false, err
	}
	return false, nil
}

// adopt takes the write of another client for this node's data, unless a SetData has come since.
func (k *keeper) adopt(data []byte, newest int) {
	if !k.cfg.edited(slices.Clone(data)) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.newest == newest {
		k.data = data
	}
}

// fits reports whether a znode is of the kind that must be: an ephemeral one
// belongs to the session of the client.
func (k *keeper) fits(stat *framework.Stat) bool {
	if !k.kind.ephemeral {
		return stat.EphemeralOwner == 0
	}
	session := k.client.Session()
	return session != nil && stat.EphemeralOwner == session.ID()
}

// mayReplace reports whether a znode that does not fit is left over from an earlier session of
// this node, or of the process before it. Two clients that replaced each other's znodes would do
// so without end.
func (k *keeper) mayReplace(stat *framework.Stat) bool {
	if !k.kind.ephemeral || stat.EphemeralOwner == 0 {
		return false // no session leaves a persistent znode (but see isRestored), and a persistent node leaves no ephemeral one
	}
	return !k.stood || k.sessions[stat.EphemeralOwner]
}

// isRestored reports whether a persistent znode is a copy of this ephemeral node: some tools restore all znodes as persistent
// ones. Data that is not empty, and the node's own to the last byte, shows that. The replacement fails if the znode is written
// meanwhile.
func (k *keeper) isRestored(ctx context.Context, path string, stat *framework.Stat) (bool, error) {
	data, _, _ := k.wanted()
	if !k.kind.ephemeral || stat.EphemeralOwner != 0 || stat.NumChildren > 0 || len(data) == 0 {
		return false, nil
	}
	var now framework.Stat
	have, err := k.client.Get(ctx, path, framework.StoringStatIn(&now))
	switch {
	case err == nil:
		return now.Czxid == stat.Czxid && now.Version == stat.Version && bytes.Equal(have, data), nil
	case mayPass(err) || ctx.Err() != nil:
		return false, err
	default:
		return false, nil // what it says is not known
	}
}

// taken returns an ErrTaken that says what is in the way.
func taken(stat *framework.Stat) error {
	if stat.EphemeralOwner == 0 {
		return fmt.Errorf("%w: it is persistent", ErrTaken)
	}
	return fmt.Errorf("%w: session 0x%x", ErrTaken, uint64(stat.EphemeralOwner))
}

// options are the options of a creation.
func (k *keeper) options(mode framework.CreateMode, extra ...framework.CreateOption) []framework.CreateOption {
	opts := append([]framework.CreateOption{framework.WithMode(mode)}, extra...)
	if k.cfg.acl != nil {
		opts = append(opts, framework.WithACL(k.cfg.acl...))
	}
	if k.cfg.ttl != 0 && mode != framework.EphemeralSequential {
		opts = append(opts, framework.WithTTL(k.cfg.ttl))
	}
	return opts
}

// outside adds the option that needs more than one request.
func (k *keeper) outside(opts []framework.CreateOption) []framework.CreateOption {
	if k.cfg.orphan {
		return opts
	}
	return append(opts, framework.CreatingParentContainersIfNeeded())
}

// create creates the znode, at path if that is known.
func (k *keeper) create(ctx context.Context, path string) error {
	if path == "" && !k.cfg.protected {
		return k.draw(ctx)
	}
	data, newest, _ := k.wanted()
	opts := k.options(k.kind.plain, framework.Idempotent())
	if path == "" {
		path, opts = k.path, k.options(k.kind.mode, framework.WithProtection())
	}
	if session := k.client.Session(); session != nil {
		k.sessions[session.ID()] = true
	}
	history := k.client.History()
	var stat framework.Stat
	created, err := k.client.Create(ctx, path, data, k.outside(append(opts, framework.StoringStatIn(&stat)))...)
	k.attempted = true
	if errors.Is(err, framework.ErrNodeExists) && !framework.OutcomeUnknown(err) {
		return nil // the next step looks at it
	}
	if err != nil {
		return err
	}
	k.stood, k.history, k.seen = true, history, stat
	k.stands(created, newest)
	return nil
}

// protectedPrefix is how long "_c_", a UUID and "-" are.
const protectedPrefix = 40

// draw learns the number of a sequential znode from another one, whose
// protected name can be found again when the reply is lost. A sequential
// create without protection would leave a second znode behind then.
func (k *keeper) draw(ctx context.Context) error {
	parent, name := framework.SplitPath(k.path)
	drawn, err := k.client.Create(ctx, k.path, nil,
		k.outside(k.options(framework.EphemeralSequential, framework.WithProtection()))...)
	if err != nil {
		return err
	}
	_, last := framework.SplitPath(drawn)
	number := last[protectedPrefix+len(name):]
	k.mu.Lock()
	k.actual = framework.JoinPath(parent, name+number)
	k.mu.Unlock()
	// In one transaction, so that a client that sees the znode sees no other one beside it.
	err = k.exchange(ctx, k.name(), framework.DeleteOp(drawn))
	if err == nil {
		return nil
	}
	// One by one, then. A deletion that fails stays in the background, and with it a node
	// that ends with the session.
	isTaken := attempt.Overtaken(err) && errors.Is(err, framework.ErrNodeExists)
	if err := k.client.Delete(ctx, drawn, framework.InBackground()); err != nil {
		return err
	}
	if isTaken { // a znode made by name has this number: draw another one
		k.mu.Lock()
		k.actual = ""
		k.mu.Unlock()
		return nil
	}
	return k.create(ctx, k.name())
}

// replace deletes a znode that is left over and creates the right one, in one transaction.
// So no client sees a moment without the znode.
func (k *keeper) replace(ctx context.Context, path string, stat *framework.Stat) error {
	if !k.sessions[stat.EphemeralOwner] { // it may be a live client's of the same name
		k.client.Logger().Warn("a node replaces the znode of another session", logPath, path,
			"session", fmt.Sprintf("0x%x", uint64(stat.EphemeralOwner))) // 0x0 for a restored copy
	}
	err := k.exchange(ctx, path, framework.DeleteOp(path, framework.WithVersion(stat.Version)))
	if attempt.Overtaken(err) {
		return nil
	}
	return err
}

// exchange creates the znode at path in the transaction that deletes another.
func (k *keeper) exchange(ctx context.Context, path string, deletion framework.Op) error {
	data, newest, _ := k.wanted()
	if session := k.client.Session(); session != nil {
		k.sessions[session.ID()] = true
	}
	k.attempted = true
	history := k.client.History()
	_, err := k.client.Transact(ctx, deletion, framework.CreateOp(path, data, k.options(k.kind.plain)...))
	if err == nil {
		k.stood, k.history, k.seen = true, history, framework.Stat{}
		k.stands(path, newest)
	}
	return err
}

// remove deletes the znode and confirms that it is gone, however long that
// takes. It leaves what another client has put there.
func (k *keeper) remove(ctx context.Context) {
	loop := attempt.Loop{Client: k.client, Failed: k.remains}
	k.remains(loop.Do(ctx, func(ctx context.Context) error {
		err := k.removeOnce(ctx)
		if !mayPass(err) {
			return backoff.Permanent(err) // nil if there is none
		}
		return err
	}))
}

// remains notes why the removal has failed. An ephemeral znode goes with the
// session of a client that has ended.
func (k *keeper) remains(err error) {
	if k.kind.ephemeral && attempt.Ended(k.client) != nil {
		err = nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left = err
}

func (k *keeper) removeOnce(ctx context.Context) error {
	path := k.name()
	if path == "" {
		return nil // a protected creation cleans up after itself
	}
	stat, err := k.client.Exists(ctx, path)
	if err == nil && !k.isOwn(stat) {
		// This server may not have a creation yet whose reply was lost. A check takes a majority of the servers; a leader that is
		// cut off from them answers a sync.
		_, err = k.client.Transact(ctx, framework.CheckOp(path, framework.AnyVersion))
		switch {
		case errors.Is(err, framework.ErrNoNode):
			return nil
		case err == nil, errors.Is(err, framework.ErrNoAuth): // it is there
			stat, err = k.client.Exists(ctx, path)
		}
	}
	if err != nil || !k.isOwn(stat) {
		return err
	}
	// Another session may begin between the two requests, so a failed deletion is
	// not repeated before the owner has been read again.
	err = k.client.Delete(ctx, path, framework.Quietly(), framework.WithRetry(retry.None()))
	if framework.OutcomeUnknown(err) {
		return k.removeOnce(ctx)
	}
	return err
}

// isOwn reports whether the Stat is of a znode that Close removes. The znode of the process before
// this one goes with its session.
func (k *keeper) isOwn(stat *framework.Stat) bool {
	return stat != nil && (k.fits(stat) || k.mayReplace(stat) && k.sessions[stat.EphemeralOwner])
}
