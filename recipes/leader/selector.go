// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/callscope"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

// selectorName is what Curator calls the nodes of a LeaderSelector, as of a mutex.
const selectorName = "lock-"

// LeaderSelector leads by running a function. [LeaderSelector.Run] stands for election, calls the
// function when it leads, and gives the leadership up when the function returns. It shares the
// election with Curator's class of that name, and it shares the queue of an
// [locks.InterProcessMutex] on the same path.
//
// Layout: <path>/_c_<uuid>-lock-<10 digits>, ephemeral, with the id as data,
// below container nodes.
//
// It is safe for concurrent use.
type LeaderSelector struct { //nolint:revive // Curator's name
	*election

	autoRequeue bool

	// Guarded by mu.
	running   bool
	requeued  bool
	interrupt context.CancelCauseFunc // ends the leadership that is under way
}

// NewLeaderSelector returns a candidate of the election at path. It checks its
// arguments and sends nothing.
func NewLeaderSelector(client *framework.Framework, path string, opts ...Option) (*LeaderSelector, error) {
	cfg, err := newConfig("leader_selector", opts)
	if err != nil {
		return nil, fmt.Errorf("leader: %s: %w", path, err)
	}
	if cfg.closeMode != Silent {
		return nil, fmt.Errorf("leader: %s: WithCloseMode, expected no such option: it is for a LeaderLatch", path)
	}
	e, err := newElection(client, path, selectorName, cfg)
	if err != nil {
		return nil, err
	}
	return &LeaderSelector{election: e, autoRequeue: cfg.autoRequeue}, nil
}

// Run stands for election, calls lead when this candidate leads, and gives the
// leadership up when lead has returned or panicked. It blocks until then.
//
// The context of lead is derived from ctx and from the leadership. It ends
// before another candidate can lead, with a [*locks.LostError] as its cause, and
// with [ErrInterrupted] when [LeaderSelector.InterruptLeadership] is called.
// [locks.LeaseFrom] returns the leadership, whose Token is the term.
//
// Run returns the error of lead, or why it did not come to lead. It waits up to ten seconds for
// the server to confirm that the candidate has left. Without a connection it does not wait. The
// error then matches [framework.ErrCleanupPending], and the deletion goes on in the background.
// After a call of [LeaderSelector.Requeue], and always under [WithAutoRequeue], it stands for
// election again instead. Then the errors of lead are logged and end only their leadership; pauses
// of up to 30 s lie between leaderships that fail. Run ends when lead returns [ErrStop], with nil,
// and when ctx or the client ends. When ctx ends, Run returns the error of the last leadership, or
// the error of ctx if lead returned nil. When the client ends, because it is closed or refused, its
// reason is among the errors.
//
// A panic of lead gives the leadership up, ends Run, and reaches its caller, even
// under [WithAutoRequeue]. So does a panic of user code that requests call, such as
// a retry policy. The selector can be run again afterwards.
//
// A selector stands for election once at a time. A Run while another Run is under way fails with
// [ErrRunning].
func (s *LeaderSelector) Run(ctx context.Context, lead func(context.Context) error) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("leader: run %s: %w", s.Path(), attempt.ErrNilContext)
	case lead == nil:
		return fmt.Errorf("leader: run %s: function nil, expected what to do while leading", s.Path())
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	var p attempt.Pause
	for {
		err := s.standOnce(ctx, lead)
		switch {
		case errors.Is(err, ErrStop):
			return nil
		case !s.again():
			return err
		case attempt.Ended(s.client) != nil:
			return endedWith(err, attempt.Ended(s.client))
		case ctx.Err() != nil:
			return cmp.Or(err, attempt.Interrupted(ctx))
		case err == nil:
			p.Reset()
		default:
			s.client.Logger().Warn("a leadership has failed, standing again", logPath, s.Path(), "error", err)
			p.Wait(ctx, s.client, err)
		}
	}
}

// endedWith returns the error of the last leadership of a client that has ended. Its function may
// have returned another reason, or none.
func endedWith(err, ended error) error {
	if errors.Is(err, ended) {
		return err
	}
	return errors.Join(err, ended)
}

// standOnce stands for election once.
func (s *LeaderSelector) standOnce(ctx context.Context, lead func(context.Context) error) error {
	if callscope.Holder(ctx) == "" { // or the owner of a lease waits
		ctx = context.WithValue(ctx, callscope.HolderKey{}, callscope.Candidate)
	}
	caller := ctx
	return locks.Do(ctx, s.internals, func(ctx context.Context) (err error) {
		lease := locks.LeaseFrom(ctx)
		defer func() {
			if lease.Err() == nil && !s.client.State().IsConnected() {
				err = errors.Join(err, resign(ctx, s.client, lease)) // the release of Do would wait for the end of the outage
			}
		}()
		// Below the lease's context, whose error is then that of the caller's context, also after a deadline.
		interruptible, cancel := context.WithCancelCause(caller)
		defer cancel(nil)
		ctx = lease.Context(interruptible)
		s.begin(ctx, cancel)
		defer s.end()
		// The leadership may have been lost, or the caller may have left, since the
		// grant. Then lead must not begin.
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return lead(ctx)
	})
}

func (s *LeaderSelector) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return fmt.Errorf("leader: run %s: %w", s.Path(), ErrRunning)
	}
	s.running, s.requeued = true, false
	return nil
}

func (s *LeaderSelector) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
}

func (s *LeaderSelector) begin(ctx context.Context, cancel context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease, s.interrupt = locks.LeaseFrom(ctx), cancel
}

func (s *LeaderSelector) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease, s.interrupt = nil, nil
}

// again reports whether to stand for election again, and takes a request to do so. If not, no Requeue may succeed
// from then on, as it would not be heard.
func (s *LeaderSelector) again() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.autoRequeue || s.requeued
	s.requeued = !again
	return again
}

// Requeue makes the Run that is under way stand for election once more after its present
// leadership. It reports whether there is such a Run and no earlier Requeue has asked for that
// already. A Run that ends with its context, with [ErrStop] or with its client does not stand for
// election again.
func (s *LeaderSelector) Requeue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running || s.requeued {
		return false
	}
	s.requeued = true
	return true
}

// InterruptLeadership ends the context of the leadership that is under way, with
// [ErrInterrupted] as its cause, and reports whether there is one. The
// leadership is given up when the function has returned.
func (s *LeaderSelector) InterruptLeadership() bool {
	s.mu.Lock()
	interrupt := s.interrupt
	s.mu.Unlock()
	if interrupt == nil {
		return false
	}
	interrupt(ErrInterrupted)
	return true
}
