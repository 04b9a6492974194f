// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/discovery"
)

// down notes errors of an instance until it is down.
func down(p *discovery.ServiceProvider[string], id string) {
	for _, i := range p.Instances() {
		if i.ID == id {
			p.NoteError(i)
			p.NoteError(i)
		}
	}
}

// The turns of instances that are down are shared by all others: they are not the next one's.
func TestProviderLoadOfDownInstancesIsShared(t *testing.T) {
	for name, strategy := range map[string]discovery.Strategy{
		"round robin": discovery.RoundRobin(), "random": discovery.RandomFrom(seeds.New(t)), "a strategy that panics": panicking{},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
				for n := range 10 {
					write(t, writer, fmt.Sprint(n), 1)
				}
				p := newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{Strategy: strategy})
				for n := range 5 {
					down(p, fmt.Sprint(n))
				}
				counts := map[string]int{}
				for range 1000 {
					i := must.Get(p.Instance())(t)
					counts[i.ID]++
				}
				require.Len(t, counts, 5)
				for id, n := range counts {
					require.InDelta(t, 200, n, 60, id)
				}
			})
		})
	}
}

// panicking is a strategy that panics at an instance that others have registered.
type panicking struct{}

func (panicking) Choose(from discovery.Candidates) int {
	panic("at " + from.ID(from.Len()-1))
}

func TestProviderStrategyThatPanicsIsToldOnce(t *testing.T) {
	var log lines
	client, writer := clients(t, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	write(t, writer, "a", 1)
	d := newServices(t, client)
	p := newProvider(t, d, discovery.ProviderConfig[string]{Strategy: panicking{}})
	for range 10 {
		require.Equal(t, "a", must.Get(p.Instance())(t).ID)
	}
	_, err := writer.Create(t.Context(), "/services/orders/A", []byte(`{"name":"orders","id":"A"}`)) // without a port
	require.NoError(t, err)
	awaitIDs(t, p, "A", "a")
	for range 3 {
		_, err := discovery.NewTransport(p, refusing{}).RoundTrip(newRequest(t, "http://orders/")) //nolint:bodyclose // there is no response
		require.ErrorContains(t, err, "no credentials")
	}
	require.NoError(t, client.Close()) // which writes what is in the queue of the log
	require.Len(t, log.about("at a"), 2, "of two lists")
	require.Len(t, log.about("curator.path=/services/orders"), 2)
}

// An instance is down while it is the same, whatever happens to others, and until the timeout.
func TestProviderInstanceThatIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		for _, id := range []string{"a", "b"} {
			write(t, writer, id, 1)
		}
		p := newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{})
		begin := time.Now()
		settles := func(want ...string) {
			t.Helper()
			synctest.Wait()
			require.Equal(t, want, ids(p.Instances()))
		}
		settles("a", "b")
		known := p.Instances()[0]
		p.NoteError(known)
		settles("a", "b")
		copied := *known
		p.NoteError(&copied)
		copied.ID = "the caller's"
		p.NoteError(nil)
		settles("b")

		write(t, writer, "c", 1)
		settles("b", "c")
		remove(t, writer, "c")
		settles("b")
		remove(t, writer, "a")
		settles("b")
		write(t, writer, "a", 1) // as after a lost session
		settles("b")
		write(t, writer, "a", 2)
		settles("a", "b")
		write(t, writer, "a", 1)
		settles("b")

		time.Sleep(30*time.Second - time.Since(begin) - time.Nanosecond)
		settles("b")
		time.Sleep(time.Nanosecond)
		settles("a", "b")
		p.NoteError(p.Instances()[0])
		settles("a", "b")
	})
}

// An error that is older than the timeout counts for nothing, whether or not it is forgotten yet.
func TestProviderOldErrorsDoNotCount(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		for _, id := range []string{"a", "b"} {
			write(t, writer, id, 1)
		}
		p := newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{})
		a, b := p.Instances()[0], p.Instances()[1]
		note := func(at time.Duration, failed ...*instance) {
			time.Sleep(at)
			for _, i := range failed {
				p.NoteError(i)
			}
		}
		note(14*time.Second, a)
		note(16*time.Second, b) // old errors are forgotten every 15 seconds
		note(14500*time.Millisecond, a)
		require.Equal(t, []string{"a", "b"}, ids(p.Instances()))
		p.NoteError(a)
		require.Equal(t, []string{"b"}, ids(p.Instances()))
	})
}

// Each instance that is down is up again after its own timeout.
func TestProviderInstancesThatAreDownComeBackOneByOne(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		for _, id := range []string{"a", "b", "c"} {
			write(t, writer, id, 1)
		}
		p := newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{})
		synctest.Wait()
		down(p, "b")
		time.Sleep(10 * time.Second)
		down(p, "a")
		require.Equal(t, []string{"c"}, ids(p.Instances()))

		time.Sleep(20*time.Second - time.Nanosecond)
		require.Equal(t, []string{"c"}, ids(p.Instances()))
		time.Sleep(time.Nanosecond)
		require.Equal(t, []string{"b", "c"}, ids(p.Instances()))
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"a", "b", "c"}, ids(p.Instances()))
	})
}

func TestStickyStaysWithAnUnchangedInstance(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		for _, id := range []string{"b", "c"} {
			write(t, writer, id, 1)
		}
		p := newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{Strategy: discovery.Sticky(discovery.RoundRobin())})
		chosen := func() string {
			synctest.Wait()
			i := must.Get(p.Instance())(t)
			return i.ID
		}
		require.Equal(t, "b", chosen())
		write(t, writer, "a", 1) // another index
		require.Equal(t, "b", chosen())
		remove(t, writer, "b")
		synctest.Wait()
		write(t, writer, "b", 1)
		require.Equal(t, "b", chosen(), "it is the same again")
		down(p, "b")
		require.Equal(t, "c", chosen(), "the second turn of two")
		write(t, writer, "c", 2)
		require.Equal(t, "a", chosen(), "c has changed, and the third turn is the first of two")
		remove(t, writer, "a")
		require.Equal(t, "c", chosen())
	})
}

// ownCandidates are the candidates of a test of a strategy.
type ownCandidates []string

func (c ownCandidates) Len() int        { return len(c) }
func (c ownCandidates) Up(int) bool     { return true }
func (c ownCandidates) ID(i int) string { return c[i] }
func (c ownCandidates) Index(id string) int {
	for i := range c {
		if c[i] == id {
			return i
		}
	}
	return -1
}

func TestProviderStrategiesTakeCandidatesOfOnesOwn(t *testing.T) {
	s := discovery.Sticky(discovery.RoundRobin())
	require.Equal(t, -1, s.Choose(ownCandidates{}))
	require.Equal(t, 0, s.Choose(ownCandidates{"b"}))
	require.Equal(t, 1, s.Choose(ownCandidates{"a", "b"}))
	require.Equal(t, -1, discovery.Random().Choose(ownCandidates{}))
}

func TestStickyOfAStrategyThatUsesIt(t *testing.T) {
	var sticky discovery.Strategy
	asked := 0
	sticky = discovery.Sticky(choosing{func(from discovery.Candidates) int {
		if asked++; asked == 1 {
			require.Equal(t, 1, sticky.Choose(from))
			return 0
		}
		return 1
	}})
	require.Equal(t, 1, sticky.Choose(ownCandidates{"a", "b"}), "all callers stay with one instance")
	require.Equal(t, 0, sticky.Choose(ownCandidates{"b"}))
	require.Equal(t, 2, asked)
}

// choosing is a strategy that tells what it is shown.
type choosing struct {
	ask func(discovery.Candidates) int
}

func (a choosing) Choose(from discovery.Candidates) int { return a.ask(from) }

func TestCandidates(t *testing.T) {
	inBubble(t, func(t *testing.T, client, writer *framework.Framework) {
		for _, id := range []string{"a", "b", "c"} {
			write(t, writer, id, 1)
		}
		must.Get(writer.Create(t.Context(), "/services/orders/d", []byte(`{"name":"orders","id":"d"}`)))(t)
		var ask func(discovery.Candidates) int
		p := newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{Strategy: choosing{func(c discovery.Candidates) int { return ask(c) }}})
		down(p, "a")
		ask = func(c discovery.Candidates) int {
			require.Equal(t, 3, c.Len())
			require.Equal(t, -1, c.Index("a"))
			require.Equal(t, 1, c.Index("c"))
			require.True(t, c.Up(1))
			down(p, "c")
			require.True(t, c.Up(0))
			require.False(t, c.Up(1))
			return 1
		}
		require.Equal(t, "c", must.Get(p.Instance())(t).ID)
		ask = func(c discovery.Candidates) int { // those with a port
			require.Equal(t, 1, c.Len())
			down(p, "b")
			require.False(t, c.Up(0))
			return -1
		}
		_, err := discovery.NewTransport(p, nil).RoundTrip(newRequest(t, "http://orders/")) //nolint:bodyclose // there is no response
		require.ErrorIs(t, err, discovery.ErrNoInstance)
		for _, outside := range []int{-1, 1} {
			ask = func(discovery.Candidates) int { return outside }
			_, err = p.Instance()
			require.ErrorIs(t, err, discovery.ErrNoInstance)
		}
	})
}
