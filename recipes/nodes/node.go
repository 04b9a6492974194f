// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// removalTimeout bounds how long Close waits for the server to confirm that the
// znode is gone. After that the removal goes on in the background.
const removalTimeout = 10 * time.Second

// outageTimeout bounds how long an outage may have lasted while Close waits. A client
// that changes servers is connected again before. A longer outage has no known end.
const outageTimeout = 2 * time.Second

// PersistentNode keeps a znode at the server from [PersistentNode.Start] to
// [PersistentNode.Close]. When the znode is deleted, or its session ends, it is
// created again, under the same name and with the newest data. It is Curator's
// class of that name.
//
// Layout: one znode at path, in any mode; the server appends ten digits in the
// sequential modes, and [WithProtection] prefixes the name. Missing parents
// become containers.
//
// It is safe for concurrent use.
type PersistentNode struct {
	client    *framework.Framework
	path      string
	kind      kind
	cfg       config
	changes   *listen.Set[Change]
	telemetry telemetry
	wake      chan struct{} // has room for one: SetData and reconnects

	mu      sync.Mutex
	data    []byte        // that the znode must have
	newest  int           // counts the values of data
	written int           // which of them the server has
	actual  string        // the path of the znode, "" until it is known
	present bool          // the znode stood when the server was last asked
	created bool          // it has stood once
	failure error         // of the newest attempt, nil once it has succeeded
	cutOff  time.Time     // when the connection was lost, zero while there is one
	changed chan struct{} // closed, and replaced, whenever one of those above changes
	stop    context.CancelCauseFunc
	keeper  *keeper
	stopped chan struct{} // closed when the znode is gone, or left is set for good
	closed  bool
	left    error // why the znode is not removed
}

// Change is what has become of the znode of a [PersistentNode].
type Change struct {
	// Path is the path of the znode. Before the first creation it is the path that the node
	// was made with.
	Path string

	// Present says that the znode exists.
	Present bool

	// Err says why the znode is missing: [ErrDeleted], or the error of the attempt to create
	// it, such as [framework.ErrNoAuth] or [ErrTaken]. If Present is true as well, the newest
	// data could not be written or the server could not be asked. When that has passed, a
	// Change without an error follows.
	Err error
}

// NewPersistentNode returns a node that keeps a znode with the data at path.
// It checks its arguments and sends nothing.
func NewPersistentNode(client *framework.Framework, path string, mode framework.CreateMode, data []byte, opts ...Option) (*PersistentNode, error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	if path == "/" {
		return nil, errors.New("nodes: path /, expected the path of a znode that can be created and deleted")
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("nodes: %s: %w", path, err)
	}
	k, err := newKind(mode, cfg.ttl)
	if err != nil {
		return nil, fmt.Errorf("nodes: %s: %w", path, err)
	}
	measures, err := newTelemetry(client, path)
	if err != nil {
		return nil, fmt.Errorf("nodes: %s: %w", path, err)
	}
	n := &PersistentNode{
		client: client, path: path, kind: k, cfg: cfg, telemetry: measures, data: slices.Clone(data), newest: 1,
		wake: make(chan struct{}, 1), changed: make(chan struct{}),
		changes: listen.New[Change](attempt.LogPanics(client, path, "a listener of a persistent node panicked")),
	}
	if !k.sequential && !cfg.protected {
		n.actual = path
	}
	if err := n.fitsRequest(data); err != nil {
		return nil, fmt.Errorf("nodes: %s: %w", path, err)
	}
	return n, nil
}

// Path returns the path that the node was made with.
func (n *PersistentNode) Path() string { return n.path }

// ActualPath returns the path of the znode. In the sequential modes, and with
// [WithProtection], it differs from the path that the node was made with. It is empty
// before the first creation, and stays the same after it.
func (n *PersistentNode) ActualPath() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.created {
		return ""
	}
	return n.actual
}

// Data returns a copy of the data that the znode has or will have.
func (n *PersistentNode) Data() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.data)
}

// Err returns nil while the znode exists, as far as the server has said, and no attempt to
// write the newest data has failed. Otherwise it returns the reason, such as
// [ErrNotCreated] before the first creation, or [ErrDeleted] between the end of the znode
// and its next creation.
func (n *PersistentNode) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return ErrClosed
	case n.stop == nil:
		return ErrNotStarted
	case n.failure != nil || n.present:
		return n.failure
	case n.created:
		return ErrDeleted
	default:
		return ErrNotCreated
	}
}

// OnChange calls fn for each later [Change], in order, on a goroutine of its
// own; see package listen.
func (n *PersistentNode) OnChange(fn func(Change)) *listen.Registration { return n.changes.Add(fn) }

// Start creates the znode in the background and returns at once. No server need
// be reachable. A node is started once.
func (n *PersistentNode) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.startLocked()
}

func (n *PersistentNode) startLocked() error {
	switch {
	case n.closed:
		return fmt.Errorf("nodes: start %s: %w", n.path, ErrClosed)
	case n.stop != nil:
		return fmt.Errorf("nodes: start %s: started already", n.path)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	n.stop, n.stopped = stop, make(chan struct{})
	n.keeper = &keeper{PersistentNode: n, sessions: map[int64]bool{}}
	n.telemetry.kept.Add(1)
	go n.keeper.run(ctx, n.stopped)
	return nil
}

// WaitForInitialCreate blocks until the znode has been created for the first time. It fails
// when ctx ends, and when the node is closed or not started. It also fails when the server
// refuses the creation for a reason that does not pass by itself, such as a missing
// permission.
func (n *PersistentNode) WaitForInitialCreate(ctx context.Context) error {
	return attempt.Wrapf(n.await(ctx, func() bool { return n.created }), "nodes: wait for %s", n.path)
}

// SetData sets the data of the znode, now and whenever it is created again. It blocks until
// the server has the data. If it fails because ctx ends or the server refuses the write,
// the node keeps the data and writes it when it can. The node does not keep data whose
// error matches [framework.ErrTooLarge], because it could never be written, or
// [framework.ErrClosed], because the client is closed. SetData overwrites a write of
// another client. A later write of another client stays until the next SetData, until the
// znode is created again, or until the servers may have begun again (see
// [framework.Framework.History]).
func (n *PersistentNode) SetData(ctx context.Context, data []byte) error {
	if ctx == nil {
		return fmt.Errorf("nodes: set data of %s: %w", n.path, attempt.ErrNilContext)
	}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return fmt.Errorf("nodes: set data of %s: %w", n.path, ErrClosed)
	}
	if err := n.fitsRequest(data); err != nil {
		n.mu.Unlock()
		return fmt.Errorf("nodes: set data of %s: %w", n.path, err)
	}
	n.data = slices.Clone(data)
	n.newest++
	if attempt.Ended(n.client) == nil { // after that there is no keeper
		n.failure = nil // it was about older data
	}
	version := n.newest
	n.mu.Unlock()
	n.nudge()
	return attempt.Wrapf(n.await(ctx, func() bool { return n.written >= version }), "nodes: set data of %s", n.path)
}

// fitsRequest returns an error that matches framework.ErrTooLarge if no request can have the data.
func (n *PersistentNode) fitsRequest(data []byte) error {
	// A creation has the path and an access control list as well, and so may a transaction.
	if size, limit := len(data)+len(n.path)+overhead, n.client.MaxRequestSize(); size > limit {
		return fmt.Errorf("%w: %d bytes of data take a request of about %d bytes, at most %d are sent", framework.ErrTooLarge, len(data), size, limit)
	}
	return nil
}

// overhead is the usual maximum length of a create request without the path and the data.
const overhead = 1 << 10

// await blocks until done reports true, which is called with mu held.
func (n *PersistentNode) await(ctx context.Context, done func() bool) error {
	if ctx == nil {
		return attempt.ErrNilContext
	}
	for {
		n.mu.Lock()
		reached, closed, started, failure, changed := done(), n.closed, n.stop != nil, n.failure, n.changed
		n.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return attempt.InterruptedAfter(ctx, failure)
		case closed:
			return ErrClosed
		case !started:
			return ErrNotStarted
		case reached:
			return nil
		case failure != nil && !mayPass(failure) && !errors.Is(failure, ErrTaken):
			return failure
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// nudge makes the keeper look at the znode again.
func (n *PersistentNode) nudge() { attempt.Signal(n.wake) }

// wakeLocked wakes all calls that wait. The caller holds mu.
func (n *PersistentNode) wakeLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// stands notes that the server has the znode, with this value of the data.
func (n *PersistentNode) stands(path string, written int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	news := !n.present || n.failure != nil && max(n.written, written) == n.newest
	if !n.present {
		n.telemetry.standing.Add(1)
		if n.created {
			n.telemetry.recreations.Add(1)
		}
	}
	n.actual, n.present, n.created = path, true, true
	n.written = max(n.written, written)
	if n.written == n.newest {
		n.failure = nil
	}
	n.wakeLocked()
	if news {
		n.changes.Notify(Change{Path: path, Present: true})
	}
}

// vanished notes that the znode is gone.
func (n *PersistentNode) vanished() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.written = 0
	if n.present {
		n.present = false
		n.telemetry.standing.Add(-1)
		n.wakeLocked()
		n.changes.Notify(Change{Path: n.actual, Err: ErrDeleted})
	}
}

// fail notes why the server does not have the znode with the newest data. A failure for the
// same reason is reported once.
func (n *PersistentNode) fail(err error) {
	n.mu.Lock()
	news := n.failure == nil || reason(n.failure) != reason(err)
	n.failure = err
	n.wakeLocked()
	path := n.path
	if n.actual != "" {
		path = n.actual
	}
	if news {
		n.changes.Notify(Change{Path: path, Present: n.present, Err: err})
	}
	n.mu.Unlock()
	if news {
		n.client.Logger().Warn("a node cannot be kept as it must be", logPath, path, "error", err)
	}
}

// ended notes that the node is not kept any more.
func (n *PersistentNode) ended() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.telemetry.kept.Add(-1)
	if n.present {
		n.telemetry.standing.Add(-1)
	}
}

// wanted returns the data that the znode must have and which value that is.
func (n *PersistentNode) wanted() (data []byte, version, written int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.data, n.newest, n.written
}

func (n *PersistentNode) name() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.actual
}

// Close stops keeping the znode and deletes it. It waits until the server has confirmed
// that the znode is gone, for at most ten seconds. It stops waiting when the client has
// been without a connection for two seconds. So during an outage it returns at once. Then
// its error matches [framework.ErrCleanupPending], and the removal goes on in the
// background until it succeeds or the client ends. An ephemeral znode ends with its
// session at the latest, so Close returns nil once the client has ended. When the server refuses the removal, Close returns its error, and
// the next Close tries again.
func (n *PersistentNode) Close() error {
	n.mu.Lock()
	n.endLocked()
	if n.stop == nil {
		n.mu.Unlock()
		return nil // never started, so there is nothing to remove
	}
	n.removeAgainLocked()
	stop, stopped := n.stop, n.stopped
	n.mu.Unlock()
	stop(ErrClosed)
	if n.cfg.stays {
		<-stopped // no request follows, so the connection does not matter
		return nil
	}
	removed := n.awaitRemoval(stopped)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !removed && n.left != nil:
		return fmt.Errorf("nodes: close %s: %w; last error: %w", n.path, framework.ErrCleanupPending, n.left)
	case !removed:
		return fmt.Errorf("nodes: close %s: %w", n.path, framework.ErrCleanupPending)
	case n.left != nil:
		return fmt.Errorf("nodes: close %s: %w", n.path, n.left)
	default:
		return nil
	}
}

// endLocked ends the waits for the node. It cannot be started any more.
func (n *PersistentNode) endLocked() {
	if !n.closed {
		n.closed = true
		n.wakeLocked()
	}
}

// awaitRemoval waits for the end of a removal, and reports whether it has seen it.
func (n *PersistentNode) awaitRemoval(stopped <-chan struct{}) bool {
	limit := time.After(removalTimeout)
	for {
		n.mu.Lock()
		outage, changed := n.outageLocked(), n.changed
		n.mu.Unlock()
		if attempt.IsClosed(stopped) {
			return true
		}
		select {
		case <-stopped:
			return true
		case <-changed:
		case <-outage:
			return false
		case <-limit:
			return false
		}
	}
}

// outageLocked returns a channel that receives when an outage has become too long to
// wait for its end. The caller holds mu.
func (n *PersistentNode) outageLocked() <-chan time.Time {
	switch {
	case n.client.State().IsConnected():
		n.cutOff = time.Time{}
		return nil
	case !errors.Is(n.client.Health().Err, framework.ErrNotConnected):
		return nil // the client has ended, and so does the removal
	case n.cutOff.IsZero():
		n.cutOff = time.Now()
	}
	return time.After(outageTimeout - time.Since(n.cutOff))
}

// noteState notes since when there is no connection.
func (n *PersistentNode) noteState() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outageLocked()
	n.wakeLocked()
}

// removeAgainLocked begins another removal when the last one was refused. The
// caller holds mu.
func (n *PersistentNode) removeAgainLocked() {
	if !attempt.IsClosed(n.stopped) || n.left == nil {
		return
	}
	n.left, n.stopped = nil, make(chan struct{})
	go func(stopped chan<- struct{}) {
		defer close(stopped)
		n.keeper.remove(context.Background())
	}(n.stopped)
}
