// SPDX-License-Identifier: Apache-2.0

package hardship

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
)

// hardship is one way in which life is hard for a call.
type hardship struct {
	name string
	run  func(t *testing.T, call Call)
}

// hardships are all of them.
var hardships = []hardship{
	{"short timeouts at a round trip of 10 ms", shortTimeouts},
	{"many participants of one client, and one reset", manyAndOneReset},
	{"400 KB/s, with bulk traffic beside", slowLink(400_000, 8, 50_000)},
	{"8 Mbit/s, with bulk traffic beside", slowLink(1_000_000, 2, 900_000)},
	{"a handshake that takes 1.2 s", slowHandshake},
	{"an outage, with context.Background", outage},
	{"contexts that end with a foreign cause", foreignCauses},
	{"user code that blocks, panics, calls back or closes the client", userCode},
	{"30 % of the requests throttled", throttling},
}

// mine reports whether the n-th variant of a hardship is tried with the call. In a long run
// all are. In others one of so many is, and all variants and all calls get their turn.
func mine(call Call, n, of int) bool {
	if seeds.Long() {
		return true
	}
	name := fnv.New32a()
	_, _ = name.Write([]byte(call.Name)) // it never fails
	return (int(name.Sum32())+n)%of == 0
}

// Run makes each call under each hardship. A row of known, as "hardship: call", or a
// hardship is left out; the value is the reason.
func Run(t *testing.T, calls []Call, known map[string]string) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // nothing in a bubble waits for another processor
	rows := make(map[string]bool)
	for _, h := range hardships {
		rows[h.name] = true
		for _, call := range calls {
			rows[h.name+": "+call.Name] = true
		}
	}
	for row, reason := range known {
		require.True(t, rows[row], "%s is no row", row)
		require.NotEmpty(t, reason, row)
	}
	for _, h := range hardships {
		t.Run(h.name, func(t *testing.T) {
			for _, call := range calls {
				if known[h.name+": "+call.Name] == "" && known[h.name] == "" {
					t.Run(call.Name, func(t *testing.T) { h.run(t, call) })
				}
			}
		})
	}
}

func isDeadline(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

func isPending(err error) bool { return errors.Is(err, framework.ErrCleanupPending) }

// shortTimeouts makes the call with timeouts below and above a round trip, and each of
// its requests: it returns in time, leaves nothing, and soon others get what it wanted.
func shortTimeouts(t *testing.T, call Call) {
	const late = 3 * roundTrip
	onStage(t, call, nil, func(s *stage) {
		for n, ms := range []int{1, 4, 6, 9, 11, 14, 19, 21, 26, 31, 41, 55, 75} {
			if !mine(call, n, 3) {
				continue
			}
			timeout := time.Duration(ms) * time.Millisecond
			s.Link.Delay(0)
			s.preparef("timeout %v", timeout)
			s.Link.Delay(roundTrip / 2)
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			took, err := s.attempt(ctx, late)
			cancel()
			s.allowed(err, isDeadline, isPending)
			require.LessOrEqual(s.T, took, timeout+late, s.Name)
			s.end(err)
			s.bounded(4*call.Requests + 12)
		}
		s.sameSession()
	})
	const callers, times = 8, 5
	onStage(t, call, nil, func(s *stage) { s.hurry(callers, times, roundTrip*3/2) })
}

// hurry has callers of one client make the call again and again, with less time than it takes.
// What they have begun and given up is soon gone.
func (s *stage) hurry(callers, times int, timeout time.Duration) {
	const (
		backlog = 40 // nodes that a client may have to clean up before it creates others
		soon    = 500 * time.Millisecond
	)
	s.Crowd = true
	s.preparef("%d callers with a timeout of %v", callers, timeout)
	s.Link.Delay(roundTrip / 2)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range times {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				_ = s.made(ctx)
				cancel()
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	for most := time.After(time.Duration(times) * time.Second); ; {
		select {
		case <-ended:
			s.Later()
			began := time.Now()
			s.Rival()
			require.LessOrEqual(s.T, time.Since(began), soon, "%s: until a rival has had all that was wanted", s.Name)
			s.end(nil)
			s.bounded((2*s.call.Requests + 8) * callers * times)
			s.sameSession()
			return
		case <-most:
			s.failf("calls have not returned")
		case <-time.After(roundTrip):
			if nodes := s.Server.Stats().Ephemerals - s.before.Ephemerals; nodes > nodesOfParticipants*callers+backlog {
				s.failf("%d nodes of %d callers", nodes, callers)
			}
		}
	}
}

// participants is how many make a call at once. Fifty show whether the requests grow with
// the square of their number; a long run has the thousand that a busy process may have.
func participants() int {
	switch {
	case seeds.Long():
		return 1000
	case testing.Short():
		return 25
	default:
		return 50
	}
}

const (
	nodesOfParticipants = 3        // each may have, and their client some more
	heapOfParticipant   = 64 << 10 // bytes, with its goroutine's
	heapOfCrowd         = 16 << 20 // bytes, that do not depend on how many they are
	timeOfCrowd         = time.Minute
)

// manyAndOneReset has many goroutines of one client make the call at once, and resets the
// connection: once when the requests are under way, and once when those wait that have
// to. All calls return, and the session is kept.
func manyAndOneReset(t *testing.T, call Call) {
	for n, reset := range []time.Duration{7 * time.Millisecond, whileItWaits} {
		if !mine(call, n, 2) {
			continue
		}
		onStage(t, call, nil, func(s *stage) {
			s.Crowd = true
			s.preparef("reset after %v", reset)
			s.Link.Delay(roundTrip / 2)
			heap, n := s.heap(), participants()
			var all sync.WaitGroup
			for range n {
				all.Go(func() { _ = s.made(context.Background()) })
			}
			sleep(reset)
			s.Link.Cut()
			sleep(2 * time.Second)
			synctest.Wait()
			grown, most := s.heap()-heap, int64(n)*cmp.Or(call.Heap, heapOfParticipant)+heapOfCrowd
			require.LessOrEqual(s.T, grown, most, "%s: bytes of %d participants", s.Name, n)
			nodes := s.Server.Stats().Ephemerals - s.before.Ephemerals
			require.LessOrEqual(s.T, nodes, nodesOfParticipants*(n+10), "%s: nodes of %d participants", s.Name, n)
			s.Link.Delay(0)
			s.Later()
			ended := make(chan struct{})
			go func() {
				all.Wait()
				close(ended)
			}()
			select {
			case <-ended:
			case <-time.After(timeOfCrowd):
				s.failf("calls have not returned within %v", timeOfCrowd)
			}
			s.end(nil)
			s.bounded((3*call.Requests + 12) * n)
			s.sameSession()
		})
	}
}

// heap is how much is in use when there is no garbage.
func (s *stage) heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// slowLink makes the call while others of the same client read a lot.
func slowLink(bytesPerSecond, readers, size int) func(*testing.T, Call) {
	return func(t *testing.T, call Call) {
		t.Helper()
		if !mine(call, readers/8, 2) {
			t.Log("tried with the other link, or in a long run")
			return
		}
		onStage(t, call, nil, func(s *stage) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			_, err := s.Theirs.Create(ctx, "/bulk", make([]byte, size))
			require.NoError(s.T, err)
			s.preparef("%d readers", readers)
			s.Link.Rate(bytesPerSecond)
			var all sync.WaitGroup
			for range readers {
				all.Go(func() {
					for ctx.Err() == nil {
						_, _ = s.Ours.Get(ctx, "/bulk") // it is only traffic
					}
				})
			}
			sleep(time.Second)
			queue := time.Duration(readers*size) * time.Second / time.Duration(bytesPerSecond)
			within := time.Duration(call.Requests+3) * 2 * (queue + time.Second)
			_, err = s.attempt(context.Background(), within)
			s.allowed(err)
			s.sameSession()
			cancel()
			all.Wait()
			s.Link.Rate(0)
			s.end(err)
			s.sameSession()
			select {
			case state := <-s.states:
				s.failf("the client was %v", state)
			default:
			}
		})
	}
}

// slowHandshake makes the call when the connection has just been lost, and the handshake
// of the next one takes long.
func slowHandshake(t *testing.T, call Call) {
	const handshake, within = 1200 * time.Millisecond, 10 * time.Second
	onStage(t, call, nil, func(s *stage) {
		s.preparef("after a reset")
		remove := s.Server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpCreateSession {
				return zkserver.Delay(handshake)
			}
			return zkserver.Pass
		})
		s.Link.Cut()
		for state := framework.Connected; state.IsConnected(); {
			state = <-s.states
		}
		_, err := s.attempt(context.Background(), within)
		s.allowed(err)
		remove()
		s.end(err)
		s.bounded(3*call.Requests + 10)
		s.sameSession()
	})
}

// outage makes the call while no server can be reached, for longer than a session lives.
// It may fail meanwhile; otherwise it returns when the servers are back.
func outage(t *testing.T, call Call) {
	const (
		lasts  = 45 * time.Second
		within = 30 * time.Second // after it
	)
	onStage(t, call, nil, func(s *stage) {
		s.preparef("a call")
		s.Link.Refuse(true)
		s.Link.Cut()
		result := s.begin(context.Background())
		sleep(lasts)
		synctest.Wait()
		if more := s.goroutines() - s.routines; more > 30 {
			s.failf("%d goroutines more than before the outage", more)
		}
		s.Link.Refuse(false)
		connected, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		require.NoError(s.T, s.Ours.BlockUntilConnected(connected), s.Name)
		s.Later()
		select {
		case err := <-result:
			if err != nil && (errors.Is(err, context.Canceled) || isDeadline(err)) && (call.May == nil || !call.May(err)) {
				s.failf("the call ended with %v, and its context has not", err)
			}
			s.end(err)
		case <-time.After(within):
			s.failf("the call has not returned %v after the outage", within)
		}
	})
}

// foreignCauses ends the context of a call with causes that mean something else as answers
// of a server, at each of its requests, which is never answered.
func foreignCauses(t *testing.T, call Call) {
	causes := []error{framework.ErrNoNode, framework.ErrNodeExists, &framework.LostError{Reason: framework.ReasonNodeDeleted}}
	onStage(t, call, nil, func(s *stage) {
		for k := range call.Requests {
			for n, cause := range causes {
				if !mine(call, k+n, len(causes)) {
					continue
				}
				s.preparef("request %d, %v", k+1, cause)
				ctx, cancel := context.WithCancelCause(context.Background())
				session, left := s.Ours.Session().ID(), k+1
				var heard time.Time // when the call knows for sure that its context has ended
				remove := s.Server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.SessionID != session || r.Op == zkserver.OpPing || r.Op == zkserver.OpCreateSession {
						return zkserver.Pass
					}
					switch left--; {
					case left > 0:
						return zkserver.Pass
					case left < 0:
						// The connection ends with the answer, since one is missing before it, and that
						// must not be what ends the call.
						return zkserver.Delay(time.Until(heard))
					}
					cancel(cause)
					heard = time.Now().Add(time.Millisecond)
					return zkserver.NeverAnswer
				})
				_, err := s.attempt(ctx, settling)
				remove()
				if ctx.Err() != nil && err != nil && !isPending(err) && (s.call.May == nil || !s.call.May(err)) {
					require.ErrorIs(s.T, err, context.Canceled, s.Name)
					require.True(s.T, reaches(err, cause), "%s: the cause in %v", s.Name, err)
				}
				require.NoError(s.T, s.Ours.Sync(context.Background(), "/"), s.Name) // what was not answered is noticed
				s.end(err)
				cancel(nil)
			}
		}
	})
}

// reaches reports whether the cause of a context can be had from the error of a call.
func reaches(err, cause error) bool {
	var ended *framework.InterruptedError
	return errors.As(err, &ended) && errors.Is(ended.Cause, cause) || errors.Is(err, cause)
}

// throttling refuses three of ten requests as a server does that has too many.
func throttling(t *testing.T, call Call) {
	const (
		requestThrottled = -127
		within           = time.Minute
	)
	policy := retry.BoundedExponentialBackoff(10*time.Millisecond, 100*time.Millisecond, 100)
	patient := func(framework.Dialer) []framework.Option {
		return []framework.Option{framework.WithRetryPolicy(policy)}
	}
	onStage(t, call, patient, func(s *stage) {
		random := rand.New(rand.NewPCG(seeds.New(s.T).Uint64(), 0))
		for n := range 3 {
			s.preparef("time %d", n+1)
			session := s.session.ID()
			remove := s.Server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.SessionID == session && r.Op != zkserver.OpPing && r.Op != zkserver.OpCreateSession && random.IntN(10) < 3 {
					return zkserver.FailWith(requestThrottled)
				}
				return zkserver.Pass
			})
			_, err := s.attempt(context.Background(), within)
			s.allowed(err)
			s.bounded(6*call.Requests + 20)
			remove()
			s.end(err)
		}
		s.sameSession()
	})
}
