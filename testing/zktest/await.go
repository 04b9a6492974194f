// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
)

// patience bounds waits for what must happen, generously, for a busy machine: a test that
// needs all of it has failed.
const patience = time.Minute

// Context returns a context that ends with the test, or after three minutes: a call of a test
// that needs all of them has failed. A function that the test has given to Cleanup may call it too.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 3*patience)
	tb.Cleanup(cancel)
	return ctx
}

// Await returns what comes from the channel, or the zero value when it is closed: the end of
// a lease, say, or a result. It ends the test when nothing has come within a minute. what
// names the value in the message.
func Await[T any](tb testing.TB, ch <-chan T, what string) T {
	tb.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		tb.Fatalf("zktest: %s has not come within %v", what, patience)
		panic("unreachable")
	}
}

// AwaitState waits until the client is in one of the states, and returns that state. It ends
// the test after a minute without one. A state that came and went during the wait counts.
func AwaitState(tb testing.TB, client *framework.Framework, want ...framework.ConnectionState) framework.ConnectionState {
	tb.Helper()
	seen := make(chan framework.ConnectionState, 1)
	note := func(s framework.ConnectionState) {
		if !slices.Contains(want, s) {
			return
		}
		select {
		case seen <- s:
		default: // one is enough
		}
	}
	registration := client.OnConnectionState(note)
	defer registration.Remove()
	note(client.State())
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s := <-seen:
		return s
	case <-timer.C:
		tb.Fatalf("zktest: the client is %v after %v, want %v", client.State(), patience, want)
		panic("unreachable")
	}
}

// Log lists events in their order. It is a [zkserver.Server] or a [zkproxy.Proxy].
type Log[E any] interface {
	// Await returns the first event that match accepts, and waits for it.
	Await(ctx context.Context, match func(E) bool) (E, error)
}

// AwaitEvent returns the first event in the log of a server or a proxy that match
// accepts, and waits until there is one. It ends the test when that has not come
// within a minute.
func AwaitEvent[E any](tb testing.TB, log Log[E], match func(E) bool) E {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), patience)
	defer cancel()
	e, err := log.Await(ctx, match)
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	return e
}
