// SPDX-License-Identifier: Apache-2.0

package hardship

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

const (
	forACall   = 2 * time.Minute // no call takes longer, whatever becomes of its requests
	forTheRest = time.Second     // afterwards, for what goes on in the background

	fewRequests  = 3 // with which a call has every fate at each of them
	someRequests = 6 // with which it has half of them

	there = "/there" // a folder that is there before the first call
)

// EveryFault makes each call with the fates of every request that it makes, and returns how
// many times it did. Each time the call ends as it is documented to, [Stage.Returned] and
// [Stage.End] agree with the outcome, and neither znode nor watch nor session nor goroutine
// is left. The number of requests is part of the row: a call that makes others is noticed.
//
// A call of few requests has every fate at each of them. At a request of any other call, half or a quarter of the
// fates are tried, and others at its next request. A long run tries all.
//
// All this is done under each policy of the caller, StandardErrorPolicy if none is given. Under
// any policy but the first, a run that is not long tries a third of that.
func EveryFault(t *testing.T, calls []Call, policies ...framework.ErrorPolicy) (cells int) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // nothing in a bubble waits for another processor
	if len(policies) == 0 {
		policies = []framework.ErrorPolicy{framework.StandardErrorPolicy}
	}
	for _, call := range calls {
		t.Run(call.Name, func(t *testing.T) {
			for i, policy := range policies {
				of := 1
				switch {
				case call.Requests > someRequests:
					of = 4
				case call.Requests > fewRequests:
					of = 2
				}
				if i > 0 {
					of *= 3
				}
				t.Run(policy.String(), func(t *testing.T) {
					onStage(t, call, under(policy), func(s *stage) { cells += s.sufferEach(of) })
				})
			}
		})
	}
	return cells
}

func under(policy framework.ErrorPolicy) func(framework.Dialer) []framework.Option {
	return func(framework.Dialer) []framework.Option {
		return []framework.Option{framework.WithErrorPolicy(policy)}
	}
}

// sufferEach gives each request of the call one of so many fates, and returns how many it gave. The
// calls come one after the other: a client that got over one fault must get over the next.
func (s *stage) sufferEach(of int) (cells int) {
	_, err := s.Theirs.Create(context.Background(), there, nil)
	require.NoError(s.T, err, s.Name)
	certain := s.call.Requests - s.call.Spares
	n := s.suffer(0, NoFate)
	require.True(s.T, certain <= n && n <= s.call.Requests,
		"%d requests when nothing goes wrong, expected %d to %d", n, certain, s.call.Requests)
	for k := range s.call.Requests {
		for n, f := range Fates {
			if mine(s.call, k+n, of) {
				require.GreaterOrEqual(s.T, s.suffer(k+1, f), min(k+1, certain), "%s: requests", s.Name)
				cells++
			}
		}
	}
	return cells
}

// endExpectations makes each cell begin as the first. The folders of all cells stand side by
// side and are new, so the client comes to expect the next one to be missing, and needs fewer
// requests. A contender in a folder that is there ends that.
func (s *stage) endExpectations() {
	path, err := s.Ours.Create(context.Background(), there+"/node", nil, framework.CreatingParentsIfNeeded(), framework.WithProtection())
	require.NoError(s.T, err, s.Name)
	require.NoError(s.T, s.Ours.Delete(context.Background(), path), s.Name)
}

// suffer makes the call, gives its k-th request a fate, and returns how many it has made.
func (s *stage) suffer(k int, f Fate) (requests int) {
	s.Refused = f.refuses()
	s.endExpectations()
	s.preparef("request %d %s", k, f.Name)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	strike := f.Strike(s.Server, s.Ours.Session().ID(), k, cancel)
	_, err := s.attempt(ctx, forACall)
	sleep(whileItWaits) // for what goes on after the call
	requests = strike.End()
	if err == nil && s.call.Fails {
		s.failf("the call has succeeded")
	}
	if !f.Explains(err) {
		ended := func(err error) bool { return f.Ends && (errors.Is(err, context.Canceled) || isPending(err)) }
		s.allowed(err, ended)
	}
	if f.HurtsSession() { // the client learns of that with its next connection
		require.NoError(s.T, s.Ours.Sync(context.Background(), "/"), s.Name)
		synctest.Wait()
	}
	s.Returned(err)                                                   // before the client notices that a reply is missing
	for _, client := range []*framework.Framework{s.Ours, s.Theirs} { // a reply that never comes is noticed with the next one
		require.NoError(s.T, client.Sync(context.Background(), "/"), s.Name)
	}
	s.End(err)
	s.clean(forTheRest)
	s.drain()
	return requests
}

// drain forgets the states of the connection that nothing asks for.
func (s *stage) drain() {
	for {
		select {
		case <-s.states:
		default:
			return
		}
	}
}
