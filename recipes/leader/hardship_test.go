// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
)

// withoutHardship are the exported calls that are in no row, and why.
var withoutHardship = map[string]string{
	"NewLeaderLatch":    "it makes no request",
	"NewLeaderSelector": "it makes no request",
	"NewOnce":           "it makes no request",
}

func TestHardshipsOfEveryCall(t *testing.T) {
	hardship.CompleteAll(t, hardshipCalls(), withoutHardship)
}

// sameInACrowd are rows that a crowd makes the same: all but one stand behind another.
var sameInACrowd = map[string]string{
	inACrowd + "LeaderLatch: Start and Await":     "as behind a leader",
	inACrowd + "LeaderSelector: Run":              "as behind a leader",
	inACrowd + "Once: Do behind a run that fails": "as without one",
	inACrowd + "Once: Do that never runs again":   "as with one that does",
}

const inACrowd = "many participants of one client, and one reset: "

// TestHardships makes every call of the package where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls(), sameInACrowd) }

// TestHardshipsAtEveryRequest makes every call with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls()) }

func hardshipCalls() []hardship.Call {
	joins := []string{"LeaderLatch.Start", "LeaderLatch.Await"}
	return []hardship.Call{
		{Name: "LeaderLatch: Start and Await", Of: joins, Requests: 8, Prepare: joining(false), May: isLost},
		{Name: "LeaderLatch: Start and Await behind a leader", Of: joins, Requests: 5, Prepare: joining(true), May: isLost},
		{Name: "LeaderLatch: Resign", Of: []string{"LeaderLatch.Resign"}, Requests: 5, Prepare: resigning, May: isLost},
		{Name: "LeaderLatch: Close", Of: []string{"LeaderLatch.Close", "LeaderLatch.CloseWith"}, Requests: 1, Prepare: closing},
		{Name: "LeaderLatch: Participants", Of: []string{"election.Participants"}, Requests: 2, Prepare: asking(participants)},
		{Name: "LeaderLatch: Leader", Of: []string{"election.Leader"}, Requests: 2, Prepare: asking(leads)},
		{Name: "LeaderLatch: Observe", Of: []string{"election.Observe"}, Requests: 3, Prepare: asking(observes)},
		{Name: "LeaderLatch: Proclaim", Of: []string{"election.Proclaim"}, Requests: 3, Prepare: proclaiming, May: mayFail},
		{Name: "LeaderSelector: Run", Of: []string{"LeaderSelector.Run"}, Requests: 6, Prepare: running(false), May: isLost},
		{Name: "LeaderSelector: Run behind a leader", Of: []string{"LeaderSelector.Run"}, Requests: 5, Prepare: running(true), May: isLost},
		{Name: "Once: Do", Of: []string{"Once.Do"}, Requests: 14, Prepare: doing(false), May: mayFail},
		{Name: "Once: Do behind a run that fails", Of: []string{"Once.Do"}, Requests: 9, Prepare: doing(true), May: mayFail},
		{Name: "Once: Do that never runs again", Of: []string{"Once.Do"}, Requests: 14, Prepare: doing(false, leader.NeverAgain()), May: mayFail},
		{Name: "Once: Purge", Of: []string{"Once.Purge"}, Requests: 13, Prepare: purging, May: mayFail},
		{Name: "Once: Done", Of: []string{"Once.Done"}, Requests: 1, Prepare: done},
	}
}

func isLost(err error) bool {
	var lost *locks.LostError
	return errors.As(err, &lost)
}

func mayFail(err error) bool { return isLost(err) || framework.OutcomeUnknown(err) }

// standing is one run of a call: the latches that it has started.
type standing struct {
	*hardship.Stage

	mu      sync.Mutex
	latches []*leader.LeaderLatch
	closing sync.WaitGroup
}

func newStanding(s *hardship.Stage) *standing {
	st := &standing{Stage: s}
	s.End = func(error) {
		st.closeAll()
		st.rivalLeads(time.Second)
	}
	s.Rival = func() {
		st.closeAll()
		st.rivalLeads(time.Minute) // the session of a closed client may have to end
	}
	return st
}

// start starts a latch.
func (st *standing) start(client *framework.Framework) *leader.LeaderLatch {
	latch := must.Get(leader.NewLeaderLatch(client, st.Path+"/election"))(st.T)
	require.NoError(st.T, latch.Start())
	st.mu.Lock()
	defer st.mu.Unlock()
	st.latches = append(st.latches, latch)
	return latch
}

// leads returns a latch that leads.
func (st *standing) leads(client *framework.Framework) *leader.LeaderLatch {
	latch := st.start(client)
	_, err := latch.Await(context.Background())
	require.NoError(st.T, err, st.Name)
	return latch
}

// settle closes a latch that has not come to lead, or has in a crowd.
func (st *standing) settle(latch *leader.LeaderLatch, err error) error {
	if err != nil || st.Crowd {
		st.closing.Go(func() { _ = latch.Close() }) // closed once more at the end
	}
	return err
}

func (st *standing) closeAll() {
	st.closing.Wait()
	st.mu.Lock()
	all := st.latches
	st.latches = nil
	st.mu.Unlock()
	var closed sync.WaitGroup
	for _, latch := range all {
		closed.Go(func() {
			if err := latch.Close(); err != nil {
				st.T.Errorf("%s: close: %v", st.Name, err)
			}
			if latch.HasLeadership() {
				st.T.Errorf("%s: a latch leads after its close", st.Name)
			}
		})
	}
	closed.Wait()
}

// rivalLeads checks that another candidate soon leads.
func (st *standing) rivalLeads(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	rival := must.Get(leader.NewLeaderLatch(st.Theirs, st.Path+"/election"))(st.T)
	require.NoError(st.T, rival.Start())
	_, err := rival.Await(ctx)
	require.NoError(st.T, err, "%s: a rival", st.Name)
	require.NoError(st.T, rival.Close())
}

func joining(behind bool) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		st := newStanding(s)
		if behind {
			theirs := st.leads(s.Theirs)
			s.Later = func() { require.NoError(s.T, theirs.Close()) }
		}
		return func(ctx context.Context) error {
			latch := st.start(s.Ours)
			_, err := latch.Await(ctx)
			return st.settle(latch, err)
		}
	}
}

func resigning(s *hardship.Stage) func(context.Context) error {
	st := newStanding(s)
	return st.leads(s.Ours).Resign
}

func proclaiming(s *hardship.Stage) func(context.Context) error {
	st := newStanding(s)
	latch := st.leads(s.Ours)
	return func(ctx context.Context) error {
		err := latch.Proclaim(ctx, []byte("value"))
		if errors.Is(err, locks.ErrNotAcquired) && !latch.HasLeadership() {
			return fmt.Errorf("%w: %w", &locks.LostError{Reason: framework.ReasonSuspended}, err) // before the call
		}
		return err
	}
}

func closing(s *hardship.Stage) func(context.Context) error {
	st := newStanding(s)
	latch := st.leads(s.Ours)
	return hardship.WithoutContext(latch.Close)
}

// asking asks about an election that a rival has won.
func asking(ask func(context.Context, *leader.LeaderLatch) (locks.Participant, error)) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		st := newStanding(s)
		lease := must.Get(st.leads(s.Theirs).Await(context.Background()))(s.T)
		observer := must.Get(leader.NewLeaderLatch(s.Ours, st.Path+"/election"))(s.T)
		return func(ctx context.Context) error {
			found, err := ask(ctx, observer)
			if err == nil && found.Token != lease.Token() {
				return fmt.Errorf("found %v, expected the term %d", found, lease.Token())
			}
			return err
		}
	}
}

var errNone = errors.New("no leader was found")

func participants(ctx context.Context, l *leader.LeaderLatch) (locks.Participant, error) {
	all, err := l.Participants(ctx)
	switch {
	case err != nil:
		return locks.Participant{}, err
	case len(all) != 1:
		return locks.Participant{}, errNone
	}
	return all[0], nil
}

func leads(ctx context.Context, l *leader.LeaderLatch) (locks.Participant, error) {
	found, ok, err := l.Leader(ctx)
	if err == nil && !ok {
		err = errNone
	}
	return found, err
}

func observes(ctx context.Context, l *leader.LeaderLatch) (locks.Participant, error) {
	for found, err := range l.Observe(ctx) {
		if err != nil {
			return locks.Participant{}, err
		}
		if found == nil {
			return locks.Participant{}, errNone
		}
		return *found, nil
	}
	return locks.Participant{}, errNone
}

func running(behind bool) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		mutex, err := locks.NewInterProcessMutex(s.Theirs, s.Path) // the queue of a selector
		require.NoError(s.T, err)
		if behind {
			lease := must.Get(mutex.Acquire(context.Background()))(s.T)
			s.Later = func() { require.NoError(s.T, lease.Release(context.Background())) }
		}
		rival := func(within time.Duration) {
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			require.NoError(s.T, mutex.Do(ctx, func(context.Context) error { return nil }), "%s: a rival", s.Name)
		}
		s.End = func(error) { rival(time.Second) }
		s.Rival = func() { rival(time.Minute) }
		return func(ctx context.Context) error {
			selector, err := leader.NewLeaderSelector(s.Ours, s.Path)
			if err != nil {
				return err
			}
			led := false
			err = selector.Run(ctx, func(context.Context) error {
				led = true
				return nil
			})
			if err == nil && !led {
				return errors.New("it has not led")
			}
			return err
		}
	}
}

// doing runs a key. Whatever becomes of the call, what it says of the marker is
// true, and another replica can go on.
func doing(behind bool, opts ...leader.OnceOption) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		ours := must.Get(leader.NewOnce(s.Ours, s.Path, opts...))(s.T)
		theirs := must.Get(leader.NewOnce(s.Theirs, s.Path))(s.T)
		if behind {
			release, ended := make(chan struct{}), make(chan struct{})
			began := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = theirs.Do(context.Background(), "a", func(context.Context) error {
					close(began)
					<-release
					return errors.New("no paper")
				})
			}()
			<-began
			s.Later = func() {
				close(release)
				<-ended
			}
		}
		rival := func() (ran bool) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			ran, err := theirs.Do(ctx, "a", func(context.Context) error { return nil })
			require.NoError(s.T, err, "%s: a rival", s.Name)
			return ran
		}
		s.End = func(err error) {
			if ran := rival(); err == nil {
				require.False(s.T, ran, "%s: it was done", s.Name)
			}
		}
		s.Rival = func() { rival() }
		ours.NotDue() // it has a row of its own
		return func(ctx context.Context) error {
			_, err := ours.Do(ctx, "a", func(context.Context) error { return nil })
			return err
		}
	}
}

// purging purges, and another replica can do it after that.
func purging(s *hardship.Stage) func(context.Context) error {
	theirs := must.Get(leader.NewOnce(s.Theirs, s.Path, leader.NothingRetained()))(s.T)
	require.True(s.T, must.Get(theirs.NotDue().Do(context.Background(), "a", func(context.Context) error { return nil }))(s.T))
	ours := must.Get(leader.NewOnce(s.Ours, s.Path, leader.NothingRetained()))(s.T)
	s.Rival = func() { require.NoError(s.T, theirs.Purge(context.Background())) }
	return ours.Purge
}

func done(s *hardship.Stage) func(context.Context) error {
	theirs := must.Get(leader.NewOnce(s.Theirs, s.Path))(s.T)
	require.True(s.T, must.Get(theirs.Do(context.Background(), "a", func(context.Context) error { return nil }))(s.T))
	ours := must.Get(leader.NewOnce(s.Ours, s.Path))(s.T)
	return func(ctx context.Context) error {
		isDone, err := ours.Done(ctx, "a")
		if err == nil && !isDone {
			return errors.New("it is done, expected true")
		}
		return err
	}
}
