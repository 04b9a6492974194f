package framework

import (
	"errors"
	"sync"
	"time"

	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/retry"
)

// CircuitBreakingConnectionStateListener stands between a client and a listener that
// is to have peace while the connection comes and goes. It is Curator's listener of
// that name, whose rules it follows:
//
//   - It is closed at first, and passes everything on. The first [Suspended] or [Lost]
//     opens it, and is passed on.
//   - While it is open, the first Lost is passed on if none has been yet, and nothing
//     else is.
//   - The retry policy says how often and after what time to look, as if each look were
//     a retry of what has opened it. It closes at the first look that finds a
//     connection, or when the policy gives up. Then the newest state is passed on, if
//     it is another one than the listener was told last.
//
// So a [Reconnected] comes as late as the next look, and a policy that would not retry
// at all passes everything on. Nothing is passed on out of its order.
//
// This is for what may be late and must not be repeated, such as closing caches or
// calling somebody. What the recipes of this module hold goes by [Session.Context],
// never through a listener.
type CircuitBreakingConnectionStateListener struct {
	policy retry.Policy
	out    listen.Set[ConnectionState] // has one listener

	mu      sync.Mutex    // guards what follows
	budget  *retry.Budget // of looks; nil while closed
	timer   *time.Timer   // of the next look; nil while closed
	told    ConnectionState
	last    ConnectionState // seen since it opened
	stopped bool
}

// NewCircuitBreakingConnectionStateListener returns a closed circuit breaker. It is
// put to use with [Framework.OnConnectionState]:
//
//	breaker, err := framework.NewCircuitBreakingConnectionStateListener(retry.Forever(5*time.Second), fn)
//	if err != nil {
//		return err
//	}
//	defer breaker.Stop()
//	registration := client.OnConnectionState(breaker.StateChanged)
//	defer registration.Remove()
//
// The function is called as one given to OnConnectionState is, one call at a time and
// on a goroutine of its own, so it may block.
func NewCircuitBreakingConnectionStateListener(
	policy retry.Policy, fn func(ConnectionState),
) (*CircuitBreakingConnectionStateListener, error) {
	switch {
	case policy == nil:
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
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped:
	case b.budget == nil:
		b.tell(s)
		if !s.IsConnected() {
			b.open(s)
		}
	case s == Lost && b.told != Lost:
		b.last = s
		b.tell(s)
	default:
		b.last = s
	}
}

// IsOpen tells whether states are being held back.
func (b *CircuitBreakingConnectionStateListener) IsOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.budget != nil
}

// Stop makes the breaker pass nothing on any more and ends its looks. Calls of the
// listener that have been queued before still come.
func (b *CircuitBreakingConnectionStateListener) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	b.shut()
}

// open begins to hold states back, if the policy lets it; callers hold mu.
func (b *CircuitBreakingConnectionStateListener) open(s ConnectionState) {
	b.last, b.budget = s, retry.NewBudget(b.policy)
	if !b.lookLater() {
		b.shut()
	}
}

// lookLater sets the timer, or returns false when the policy gives up; callers hold
// mu.
func (b *CircuitBreakingConnectionStateListener) lookLater() bool {
	wait, ok := b.budget.Next(0, 0, ErrNotConnected)
	if ok {
		budget := b.budget
		b.timer = time.AfterFunc(max(wait, retry.MinWait), func() { b.look(budget) })
	}
	return ok
}

// look closes the circuit when it is time for it.
func (b *CircuitBreakingConnectionStateListener) look(budget *retry.Budget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.budget != budget {
		return // stopped meanwhile
	}
	if !b.last.IsConnected() && b.lookLater() {
		return
	}
	b.shut()
	if b.last != b.told {
		b.tell(b.last)
	}
}

// shut closes the circuit without a word; callers hold mu.
func (b *CircuitBreakingConnectionStateListener) shut() {
	if b.timer != nil {
		b.timer.Stop()
	}
	b.budget, b.timer = nil, nil
}

// tell passes a state on; callers hold mu, so that the order is that of the states.
func (b *CircuitBreakingConnectionStateListener) tell(s ConnectionState) {
	b.told = s
	b.out.Notify(s)
}
