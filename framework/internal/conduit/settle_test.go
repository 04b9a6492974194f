// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A call that its caller gives up while its connection fails is told of one end, and both know
// that it was not sent.
func TestSettleCallThatIsGivenUpAsItsConnectionFails(t *testing.T) {
	c := &conn{}
	for _, first := range []string{"the connection", "the caller"} {
		told := 0
		call := &Call{OnDone: func(Reply, error) { told++ }}
		fails := func() { c.settle(call, Reply{}, notSent(errors.New("cut"))) }
		leaves := func() { _ = c.abandon([]*Call{call}, ErrAbandoned) }
		if first == "the connection" {
			// The caller leaves between what OnDone is told and what Do returns.
			call.OnDone = func(Reply, error) { told++; leaves() }
			fails()
		} else {
			leaves()
			fails()
		}
		if told != 1 {
			t.Errorf("%s first: told %d times, want once", first, told)
		}
		if _, err := call.Result(); !errors.Is(err, ErrNotSent) {
			t.Errorf("%s first: the outcome is %v, want %v", first, err, ErrNotSent)
		}
	}
}

// TestPhasesOnlyGoForward: a connection that would begin again has lost what it knew, which no check would find later.
func TestPhasesOnlyGoForward(t *testing.T) {
	c := new(conn)
	for _, next := range []phase{exchanging, resuming, serving, ended} {
		c.enter(next)
		require.Panics(t, func() { c.enter(next) })
		require.Equal(t, next, c.phase)
	}
}
