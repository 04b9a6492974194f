// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/internal/usercode"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/retry"
)

// CircuitBreakingConnectionStateListener shields a listener from a flapping connection. It
// follows the rules of Curator's listener of that name:
//
//   - The breaker starts closed and passes every state on. The first [Suspended] or [Lost]
//     opens it, and is passed on.
//   - An open breaker passes on the first Lost, unless it has passed one on already, and
//     holds every other state back.
//   - The retry policy determines how often and when an open breaker looks at the state.
//     The breaker closes at the first look that finds a connection, or when the policy gives
//     up. It then passes the newest state on, if that differs from the last one passed on.
//
// So a [Reconnected] is delayed until the next look. With a policy that never retries, the
// breaker passes everything on. States are never reordered. A policy that panics gives up, and
// slog.Default has the panic.
//
// Use it for reactions that may be late and must not be repeated, such as closing caches or
// paging an operator. Recipes of this module end their holds through [Session.Context],
// never through a listener.
type CircuitBreakingConnectionStateListener struct {
	policy retry.Policy
	out    listen.Set[ConnectionState] // has one listener

	mu      sync.Mutex  // guards what follows; never held while the policy runs
	looks   *looks      // nil while closed
	timer   *time.Timer // of the next look; nil while closed
	told    ConnectionState
	last    ConnectionState // seen since it opened
	stopped bool
}

// looks are the looks at the state since one opening of the breaker. There is one at a time.
type looks struct {
	run   retry.Run
	begun bool
}

// NewCircuitBreakingConnectionStateListener returns a closed circuit breaker. Register it
// with [Framework.OnConnectionState]:
//
//	breaker, err := framework.NewCircuitBreakingConnectionStateListener(retry.Forever(5*time.Second), fn)
//	if err != nil {
//		return err
//	}
//	defer breaker.Stop()
//	registration := client.OnConnectionState(breaker.StateChanged)
//	defer registration.Remove()
//
// The breaker calls fn on a goroutine of its own, one call at a time, so fn may block.
func NewCircuitBreakingConnectionStateListener(
	policy retry.Policy, fn func(ConnectionState),
) (*CircuitBreakingConnectionStateListener, error) {
	switch {
	case options.IsNil(policy):
		return nil, errors.New("framework: circuit breaker: policy nil, expected one such as retry.Forever(time.Second)")
	case fn == nil:
		return nil, errors.New("framework: circuit breaker: listener nil, expected a function")
	}
	b := &CircuitBreakingConnectionStateListener{policy: policy}
	b.out.Add(fn)
	return b, nil
}

// StateChanged is the listener to add to the client. It does not block.
func (b *CircuitBreakingConnectionStateListener) StateChanged(s ConnectionState) {
	if opened := b.note(s); opened != nil {
		b.lookLater(opened)
	}
}

// note passes a state on or holds it back. If the state opens the breaker, it returns the looks.
func (b *CircuitBreakingConnectionStateListener) note(s ConnectionState) *looks {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped:
	case b.looks == nil:
		// Closed: pass the state on, and open if it is the first sign of trouble.
		b.tell(s)
		if !s.IsConnected() {
			b.last, b.looks = s, new(looks)
			return b.looks
		}
	case s == Lost && b.told != Lost:
		// Held back, a loss would leave the listener acting on a session that is gone.
		b.last = s
		b.tell(s)
	default:
		b.last = s
	}
	return nil
}

// IsOpen reports whether states are being held back.
func (b *CircuitBreakingConnectionStateListener) IsOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.looks != nil
}

// Stop stops the breaker: it no longer looks, and passes no further state on. Calls of the
// listener that are already queued still come.
func (b *CircuitBreakingConnectionStateListener) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	b.shut()
}

// lookLater sets the timer of the next look. It closes the breaker if the policy gives up or panics.
func (b *CircuitBreakingConnectionStateListener) lookLater(l *looks) {
	var wait time.Duration
	var ok bool
	p := usercode.Apart(func() {
		if !l.begun {
			l.run, l.begun = retry.Begin(b.policy), true
		}
		wait, ok = l.run.Next(ErrNotConnected)
	})
	if p != nil { // it would end the process, or leave the breaker open for good
		slog.Error("the retry policy of a circuit breaker panicked, and the breaker closes", "panic", p.Value, "stack", p.Stack)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.looks != l: // stopped while the policy ran
	case ok && p == nil:
		b.timer = time.AfterFunc(max(wait, retry.MinWait), func() { b.look(l) })
	default:
		b.close()
	}
}

// look closes the breaker if there is a connection, or looks again later.
func (b *CircuitBreakingConnectionStateListener) look(l *looks) {
	if b.isDown(l) {
		b.lookLater(l)
	}
}

// isDown reports whether the breaker must stay open. If not, the breaker is closed.
func (b *CircuitBreakingConnectionStateListener) isDown(l *looks) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.looks != l: // stopped since the timer was set
		return false
	case b.last.IsConnected():
		b.close()
		return false
	default:
		return true
	}
}

// close closes the circuit, and passes the newest state on; callers hold mu. States that came and went in
// between are the flapping that the listener is spared.
func (b *CircuitBreakingConnectionStateListener) close() {
	b.shut()
	if b.last != b.told {
		b.tell(b.last)
	}
}

// shut closes the circuit and passes nothing on; callers hold mu.
func (b *CircuitBreakingConnectionStateListener) shut() {
	if b.timer != nil {
		b.timer.Stop()
	}
	b.looks, b.timer = nil, nil
}

// tell passes a state on; callers hold mu, which keeps the states in order.
func (b *CircuitBreakingConnectionStateListener) tell(s ConnectionState) {
	b.told = s
	b.out.Notify(s)
}
