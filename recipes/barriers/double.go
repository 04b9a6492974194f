// SPDX-License-Identifier: Apache-2.0

package barriers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/chance"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// readyName is what Curator calls the node that opens a double barrier.
const readyName = "ready"

// DistributedDoubleBarrier lets members begin together and end together. Enter blocks until
// enough members have entered, and Leave until all of them have left. Further members that
// come while the barrier is open pass as well. It shares its znodes with Curator's class of
// that name.
//
// Layout: <path>/<uuid>, ephemeral, for each member, and <path>/ready, persistent, while the
// barrier is open; below container nodes. A member that comes while the barrier is open reads
// <path> and the nodes of all members, and writes the czxid of <path>/ready into its own. A
// member that closes the barrier writes <path>, without changing its data. They need permission
// to do so.
//
// One DistributedDoubleBarrier is one member. It is safe for concurrent use.
type DistributedDoubleBarrier struct {
	client  *framework.Framework
	path    string
	members int

	telemetry telemetry

	mu     sync.Mutex
	inside *member // nil while it has not entered
	busy   bool    // an Enter or a Leave is under way
}

// member is a node of this process at a barrier.
type member struct {
	path    string
	czxid   int64
	told    bool  // of the opening of the barrier, after it had come
	opened  int64 // the czxid of the node that has opened it; its own if that was gone again
	session *framework.Session
	history int64 // in which these numbers count, see framework.Framework.History
}

// NewDistributedDoubleBarrier returns a member of the barrier at path, which opens when this
// number of members has come. It checks its arguments and sends nothing.
func NewDistributedDoubleBarrier(client *framework.Framework, path string, members int) (*DistributedDoubleBarrier, error) {
	if err := validate(client, path); err != nil {
		return nil, err
	}
	if members < 1 {
		return nil, fmt.Errorf("barriers: %s: %d members, expected 1 or more", path, members)
	}
	measured, err := newTelemetry(client, "double_barrier", path)
	if err != nil {
		return nil, fmt.Errorf("barriers: %s: %w", path, err)
	}
	return &DistributedDoubleBarrier{client: client, path: path, members: members, telemetry: measured}, nil
}

// Path returns the path of the barrier.
func (b *DistributedDoubleBarrier) Path() string { return b.path }

func (b *DistributedDoubleBarrier) ready() string { return framework.JoinPath(b.path, readyName) }

// Enter blocks until as many members have entered as the barrier needs, or ctx ends. If it
// fails, the client deletes the node of the attempt, in the background once ctx has ended. The
// other members may have entered all the same, since they count a member until its node is
// gone. A [*framework.LostError] says that the session, and with it the member, has ended
// during the wait.
func (b *DistributedDoubleBarrier) Enter(ctx context.Context) error {
	if err := b.begin(ctx, false); err != nil {
		return fmt.Errorf("barriers: enter %s: %w", b.path, err)
	}
	var entered *member
	defer func() { b.end(entered) }() // even if user code, such as a retry policy, panics
	err := b.telemetry.measure(ctx, func() (err error) {
		entered, err = b.enter(ctx)
		return err
	})
	return attempt.Wrapf(err, "barriers: enter %s", b.path)
}

// Leave blocks until all members have left, or ctx ends. Leave first deletes the member's
// node, and the member has then left. So a Leave that fails need not be repeated, and other
// members do not wait for this member. If the client may not delete the node, Leave fails at once. Then, and without a
// connection, other members may wait for this member, or meet it, until the deletion in the background succeeds.
func (b *DistributedDoubleBarrier) Leave(ctx context.Context) error {
	if err := b.begin(ctx, true); err != nil {
		return attempt.Wrapf(err, "barriers: leave %s", b.path)
	}
	stays := b.inside
	defer func() { b.end(stays) }() // if user code panics, the member has to leave again
	err := b.telemetry.measure(ctx, func() error { return b.leave(ctx) })
	stays = nil
	return attempt.Wrapf(err, "barriers: leave %s", b.path)
}

// begin keeps calls of one member apart. A mutex would be waited for without
// the context.
func (b *DistributedDoubleBarrier) begin(ctx context.Context, inside bool) error {
	if ctx == nil {
		return attempt.ErrNilContext
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.busy:
		return errors.New("another call of this member is under way")
	case inside && b.inside == nil:
		return ErrNotEntered
	case !inside && b.inside != nil:
		return ErrEntered
	}
	b.busy = true
	return nil
}

func (b *DistributedDoubleBarrier) end(inside *member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy, b.inside = false, inside
}

// enter makes a member and waits for the other members.
func (b *DistributedDoubleBarrier) enter(ctx context.Context) (entered *member, err error) {
	if err := b.client.BlockUntilConnected(ctx); err != nil {
		return nil, err
	}
	m := &member{path: framework.JoinPath(b.path, chance.Of(ctx).UUID(b.path)), session: b.client.Session()}
	created, mayStay := false, true
	defer func() {
		if entered == nil && mayStay { // even if user code has panicked: the others count what stays
			err = attempt.TakeBack(ctx, b.client, m.path, err)
		}
	}()
	for {
		m.history = b.client.History()
		var stat framework.Stat
		// The name is used once, so a creation that is repeated finds its own node.
		_, err := b.client.Create(ctx, m.path, nil, framework.WithMode(framework.Ephemeral), framework.InSession(m.session),
			framework.CreatingParentContainersIfNeeded(), framework.Idempotent(), framework.StoringStatIn(&stat))
		created = created || err == nil
		mayStay = created || framework.OutcomeUnknown(err) // what was refused needs no deletion, which may be refused forever
		if err == nil {
			m.czxid, m.opened = stat.Czxid, stat.Czxid
			err = b.awaitOthers(ctx, m)
		}
		switch {
		case errors.Is(err, errOtherHistory): // in which the node may be missing
		case err != nil:
			return nil, err
		default:
			return m, nil
		}
	}
}

// errOtherHistory says that the numbers of a member can no longer be compared.
var errOtherHistory = errors.New("the servers may have begun again")

// awaitOthers waits until the barrier is open for m.
func (b *DistributedDoubleBarrier) awaitOthers(ctx context.Context, m *member) error {
	for {
		var watch *framework.Watch
		ready, err := b.client.Exists(ctx, b.ready(), framework.Watched(&watch))
		if err != nil {
			return err
		}
		var opened bool
		if b.client.History() != m.history {
			err = errOtherHistory
		} else {
			opened, err = b.look(ctx, m, ready, watch)
		}
		watch.Cancel()
		if opened || err != nil {
			return err
		}
	}
}

// look decides whether the barrier is open, opens it, or waits until that may
// have changed.
func (b *DistributedDoubleBarrier) look(ctx context.Context, m *member, ready *framework.Stat, watch *framework.Watch) (opened bool, err error) {
	if ready != nil {
		opened, err = true, nil
		if ready.Czxid < m.czxid {
			opened, err = b.joinOrClose(ctx, m, ready.Czxid)
		}
		if opened {
			m.opened = ready.Czxid
		}
		return opened, err
	}
	if m.told {
		// Members that are faster have closed the barrier again.
		return true, nil
	}
	folder, err := b.client.Exists(ctx, b.path)
	switch {
	case err != nil:
		return false, err
	case folder != nil && int(folder.NumChildren) >= b.members:
		return b.open(ctx, m)
	}
	event, err := b.await(ctx, m, watch)
	m.told = err == nil && event.Type == framework.EventNodeCreated
	return false, err
}

// await waits for an event of the watch, or for the end of the session.
func (b *DistributedDoubleBarrier) await(ctx context.Context, m *member, watch *framework.Watch) (framework.Event, error) {
	select {
	case <-watch.Fired():
		return watch.Event(), nil
	case <-m.session.Done():
		return framework.Event{}, m.session.Err()
	case <-ctx.Done():
		return framework.Event{}, attempt.Interrupted(ctx)
	}
}

// joinOrClose is for a member that has come after the barrier was opened. It joins the round if
// a member of it is there. If they have all died before they could close the barrier, it does so.
func (b *DistributedDoubleBarrier) joinOrClose(ctx context.Context, m *member, round int64) (joined bool, err error) {
	other, err := b.memberOf(ctx, round)
	switch {
	case err != nil:
		return false, err
	case b.client.History() != m.history:
		return false, errOtherHistory
	case other != "": // m itself if it has joined without knowing
		return b.join(ctx, m, other, round)
	}
	now, err := b.snapshot(ctx)
	if err == nil && now.isOpenBy(round) {
		_, err = b.close(ctx, now, framework.CheckOp(m.path, framework.AnyVersion)) // which pins the folder
	}
	return false, err
}

// join writes into the node of m which round it has joined. Those who leave wait for m from
// then on, and nobody takes the round for abandoned. The other member of the round must still
// be there, which this client's server may not know. If m is not known to have joined, the
// caller looks again.
func (b *DistributedDoubleBarrier) join(ctx context.Context, m *member, other string, round int64) (joined bool, err error) {
	err = b.transact(ctx, m.history, framework.CheckOp(other, framework.AnyVersion),
		framework.SetDataOp(m.path, []byte(ofRound(round)), framework.Uncompressed()))
	var failed *framework.OpError
	if errors.Is(err, framework.ErrNoNode) && errors.As(err, &failed) && failed.Path == other || isUndecided(err) {
		return false, nil
	}
	return err == nil, err
}

// ofRound is what a member that has joined a round holds.
func ofRound(round int64) string { return fmt.Sprintf("%#x", round) }

// memberOf returns the path of a member of the round that was opened by the node with this
// czxid, or "". A member of the round has come before, or has joined it.
func (b *DistributedDoubleBarrier) memberOf(ctx context.Context, round int64) (string, error) {
	for {
		var folder framework.Stat
		names, err := b.client.Children(ctx, b.path, framework.StoringStatIn(&folder))
		if errors.Is(err, framework.ErrNoNode) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == readyName })
		stats, data, absent := make([]framework.Stat, len(names)), make([][]byte, len(names)), make([]bool, len(names))
		reads := make([]framework.Read, len(names))
		for i, name := range names {
			reads[i] = framework.ReadData(framework.JoinPath(b.path, name), &data[i],
				framework.StoringStatIn(&stats[i]), framework.StoringAbsenceIn(&absent[i]), framework.Undecompressed())
		}
		if err := b.client.Pipeline(ctx, reads...); err != nil {
			return "", err
		}
		for i, name := range names {
			if !absent[i] && (stats[i].Czxid <= round || string(data[i]) == ofRound(round)) {
				return framework.JoinPath(b.path, name), nil
			}
		}
		// A member that came after the list may have joined by one that left before it was read.
		after, err := b.client.Exists(ctx, b.path)
		if err != nil || after == nil || after.Pzxid == folder.Pzxid {
			return "", err
		}
	}
}

// open opens the barrier. Another member may do so at the same time.
func (b *DistributedDoubleBarrier) open(ctx context.Context, m *member) (bool, error) {
	var ready framework.Stat
	_, err := b.client.Create(ctx, b.ready(), nil, framework.Idempotent(), framework.InSession(m.session), framework.StoringStatIn(&ready))
	if errors.Is(err, framework.ErrNodeExists) {
		return false, nil // look at it
	}
	m.opened = ready.Czxid
	return err == nil, err
}

// snapshot is what a member that may close the barrier has seen of it. The folder was read
// before the node that opens the barrier.
type snapshot struct {
	history int64           // before the reads
	folder  *framework.Stat // nil if there is none
	data    []byte          // of the folder, as it is stored
	ready   *framework.Stat // nil if the barrier is closed
}

// isOpenBy reports whether the barrier is open, by the node with this czxid.
func (s snapshot) isOpenBy(czxid int64) bool { return s.ready != nil && s.ready.Czxid == czxid }

func (b *DistributedDoubleBarrier) snapshot(ctx context.Context) (snapshot, error) {
	s := snapshot{history: b.client.History()}
	var folder framework.Stat
	var err error
	// Not in a pipeline, whose reads may be answered in another order.
	if s.data, err = b.client.Get(ctx, b.path, framework.StoringStatIn(&folder), framework.Undecompressed()); errors.Is(err, framework.ErrNoNode) {
		return s, nil
	} else if err != nil {
		return s, err
	}
	s.folder = &folder
	s.ready, err = b.client.Exists(ctx, b.ready())
	return s, err
}

// close removes the node that opens the barrier. It does nothing if the barrier was closed
// since the node was seen, because the node of the next round has the same name and version.
// So each close also writes the folder, with the data that it has, on condition of its
// version. A request that waited for another history could meet another folder of that name.
// So it is made in the history of the snapshot only. close reports whether the node is gone.
// If it is not known to be, the caller looks again.
func (b *DistributedDoubleBarrier) close(ctx context.Context, seen snapshot, conditions ...framework.Op) (closed bool, err error) {
	err = b.transact(ctx, seen.history, slices.Concat(conditions, []framework.Op{
		framework.SetDataOp(b.path, seen.data, framework.WithVersion(seen.folder.Version), framework.Uncompressed()),
		framework.DeleteOp(b.ready()),
	})...)
	var failed *framework.OpError
	switch {
	case isUndecided(err), errors.Is(err, framework.ErrBadVersion):
		return false, nil
	case errors.Is(err, framework.ErrNoNode) && errors.As(err, &failed) && (failed.Path == b.path || failed.Path == b.ready()):
		return true, nil
	default:
		return err == nil, err
	}
}

// transact makes a transaction in one history only.
func (b *DistributedDoubleBarrier) transact(ctx context.Context, history int64, ops ...framework.Op) error {
	return b.client.Retry(ctx, func(ctx context.Context) error {
		_, err := b.client.Transact(ctx, ops...)
		return err
	}, framework.InHistory(history))
}

// isUndecided reports whether a look at the servers has to tell what came of a transaction.
func isUndecided(err error) bool {
	return framework.OutcomeUnknown(err) || errors.Is(err, framework.ErrSessionEnded)
}

// leave deletes the member and waits until all have left. The last member that leaves closes
// the barrier, and the other members wait for that.
func (b *DistributedDoubleBarrier) leave(ctx context.Context) error {
	if err := attempt.Remove(ctx, b.client, b.inside.path); err != nil {
		return err
	}
	timeout := b.inside.session.Timeout()
	for wait := timeout / 16; ; wait = min(2*wait, timeout) {
		var watch *framework.Watch
		var ready framework.Stat
		_, err := b.client.Get(ctx, b.ready(), framework.Watched(&watch), framework.StoringStatIn(&ready), framework.Undecompressed())
		// Another one opens another round than this member's.
		closed := errors.Is(err, framework.ErrNoNode) || err == nil && ready.Czxid != b.inside.opened
		if err != nil && !closed {
			return err
		}
		left, err := b.allLeft(ctx, closed, ready, watch, wait)
		watch.Cancel()
		if left || err != nil {
			return err
		}
	}
}

// allLeft reports whether all members have left, or waits until that may be so, or for a time. The
// barrier is closed for this round, or opened is the node that was seen to open it.
func (b *DistributedDoubleBarrier) allLeft(
	ctx context.Context, closed bool, opened framework.Stat, watch *framework.Watch, wait time.Duration,
) (bool, error) {
	now, err := b.snapshot(ctx)
	if err != nil {
		return false, err
	}
	switch {
	case now.folder == nil || now.folder.NumChildren == 0:
		return true, nil
	case closed:
		return b.awaitRound(ctx)
	case now.folder.NumChildren == 1 && now.isOpenBy(opened.Czxid):
		// The node that opens the barrier was there before and after, so it is the only child.
		return b.close(ctx, now)
	default:
		return false, awaitClose(ctx, watch, wait)
	}
}

// awaitClose waits until the barrier is closed. A member that dies, or gives up to enter, closes
// nothing, so after a time the caller looks again.
func awaitClose(ctx context.Context, watch *framework.Watch, wait time.Duration) error {
	select {
	case <-watch.Fired():
		return nil
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return attempt.Interrupted(ctx)
	}
}

// awaitRound waits for members of this round that are there although the
// barrier is closed: members of Curator close it when they give up to wait. It
// reports whether there are none. Members of the next round do not count.
func (b *DistributedDoubleBarrier) awaitRound(ctx context.Context) (bool, error) {
	if b.client.History() != b.inside.history {
		return true, nil // no number says which members are of this round
	}
	other, err := b.memberOf(ctx, b.inside.opened)
	if err != nil || other == "" {
		return err == nil, err
	}
	return false, attempt.AwaitAbsence(ctx, b.client, other)
}
