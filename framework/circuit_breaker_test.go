// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
)

// circuit is a breaker and what its listener has been told.
type circuit struct {
	*framework.CircuitBreakingConnectionStateListener

	mu   sync.Mutex
	told []framework.ConnectionState
}

func newCircuit(t *testing.T, policy retry.Policy) *circuit {
	t.Helper()
	c := new(circuit)
	breaker := must.Get(framework.NewCircuitBreakingConnectionStateListener(policy, func(s framework.ConnectionState) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.told = append(c.told, s)
	}))(t)
	c.CircuitBreakingConnectionStateListener = breaker
	return c
}

// pass lets states happen and then time pass, and returns what the listener has been
// told since the last call.
func (c *circuit) pass(d time.Duration, states ...framework.ConnectionState) []framework.ConnectionState {
	for _, s := range states {
		c.StateChanged(s)
	}
	time.Sleep(d)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	told := c.told
	c.told = nil
	return told
}

const (
	connected   = framework.Connected
	suspended   = framework.Suspended
	reconnected = framework.Reconnected
	lost        = framework.Lost
)

func only(states ...framework.ConnectionState) []framework.ConnectionState { return states }

// Curator: TestCircuitBreakingConnectionStateListener, all five.
func TestCircuitBreakerHoldsBackAFlappingConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, retry.Forever(time.Second))
		require.Equal(t, only(connected, suspended), c.pass(time.Millisecond, connected, suspended))
		require.True(t, c.IsOpen())
		require.Empty(t, c.pass(time.Millisecond, reconnected, suspended, reconnected, suspended))
		require.Equal(t, only(lost), c.pass(time.Millisecond, lost), "the first one passes")
		require.Empty(t, c.pass(time.Millisecond, reconnected, suspended, lost, reconnected))
		require.True(t, c.IsOpen(), "it closes at a look only")
		require.Equal(t, only(reconnected), c.pass(time.Second))
		require.False(t, c.IsOpen())
		require.Equal(t, only(lost), c.pass(5*time.Second, lost), "it opens with a loss, too")
		require.Empty(t, c.pass(5*time.Second, lost, suspended, lost))
		require.True(t, c.IsOpen(), "as long as there is no connection")
		require.Equal(t, only(reconnected), c.pass(time.Second, reconnected))
	})
}

// Curator: TestCircuitBreakingConnectionStateListener, all five.
func TestCircuitBreakerClosesWhenItsPolicyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, retry.NTimes(3, time.Second))
		require.Equal(t, only(suspended), c.pass(0, suspended))
		require.Empty(t, c.pass(2500*time.Millisecond, reconnected, suspended))
		require.True(t, c.IsOpen())
		require.Empty(t, c.pass(time.Second), "the state is the one that was told last")
		require.False(t, c.IsOpen())

		// Each opening begins anew.
		require.Equal(t, only(suspended, lost), c.pass(2500*time.Millisecond, suspended, lost))
		require.Equal(t, only(suspended), c.pass(time.Second, reconnected, suspended), "now it is another one")
		require.False(t, c.IsOpen())
		require.Equal(t, only(reconnected), c.pass(0, reconnected))
	})
}

// Curator: TestCircuitBreakingConnectionStateListener, all five.
func TestCircuitBreakerThatNeverOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, retry.None())
		all := only(connected, suspended, lost, reconnected, suspended, reconnected)
		require.Equal(t, all, c.pass(0, all...))
		require.False(t, c.IsOpen())
	})
}

// Curator: TestCircuitBreakingConnectionStateListener, all five.
func TestCircuitBreakerThatIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := newCircuit(t, retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) {
			asked++
			return time.Second, true
		}))
		require.Equal(t, only(suspended), c.pass(0, suspended))
		c.Stop()
		require.Empty(t, c.pass(time.Minute, reconnected, lost))
		require.Equal(t, 1, asked)
		c.Stop()
	})
	for _, policy := range []retry.Policy{nil, (*retry.Budget)(nil)} {
		_, err := framework.NewCircuitBreakingConnectionStateListener(policy, func(framework.ConnectionState) {})
		require.ErrorContains(t, err, "policy nil")
	}
	_, err := framework.NewCircuitBreakingConnectionStateListener(retry.None(), nil)
	require.ErrorContains(t, err, "listener nil")
}

// TestCircuitBreakerWhosePolicyPanics closes, when it is asked for the first time and later.
func TestCircuitBreakerWhosePolicyPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for looks := range 4 {
			c := newCircuit(t, retry.PolicyFunc(func(attempt int, _ time.Duration, _ error) (time.Duration, bool) {
				switch {
				case attempt != looks/2:
				case looks%2 == 0:
					panic("the policy's")
				default:
					runtime.Goexit()
				}
				return time.Second, true
			}))
			require.Equal(t, only(suspended), c.pass(time.Minute, suspended))
			require.False(t, c.IsOpen())
			require.Equal(t, only(reconnected), c.pass(0, reconnected))
		}
	})
}

// askingPolicy is a policy that uses the breaker that asks it.
type askingPolicy struct{ ask func() }

func (p *askingPolicy) Next(int, time.Duration, error) (time.Duration, bool) {
	p.ask()
	return time.Second, true
}

func (p *askingPolicy) Begin() retry.Policy {
	p.ask()
	return p
}

func TestCircuitBreakerWhosePolicyUsesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, asked := new(askingPolicy), 0
		c := newCircuit(t, policy)
		policy.ask = func() {
			require.True(t, c.IsOpen())
			if asked++; asked == 3 {
				c.Stop()
			}
			c.StateChanged(lost)
		}
		require.Equal(t, only(suspended, lost), c.pass(time.Minute, suspended))
		require.False(t, c.IsOpen())
		require.Empty(t, c.pass(time.Minute, suspended))
		require.Equal(t, 3, asked, "once it has stopped it asks no more")
	})
}

// TestCircuitBreakerOnAClient: outages that follow one another are one outage.
//
// Curator: TestCircuitBreakingConnectionStateListener, all five.
func TestCircuitBreakerOnAClient(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, states := n.newClient(t)
		c := newCircuit(t, retry.Forever(10*time.Second))
		defer c.Stop()
		defer f.OnConnectionState(c.StateChanged).Remove()
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		for range 3 {
			require.NoError(t, n.server.Stop())
			states.expect(t, framework.Suspended)
			require.NoError(t, n.server.Restart())
			states.expect(t, framework.Reconnected)
		}
		require.Equal(t, only(connected, suspended), c.pass(0))
		require.Equal(t, only(reconnected), c.pass(10*time.Second))
	})
}
