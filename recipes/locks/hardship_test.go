// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"testing"

	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/recipes/locks"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{}

// TestHardships makes the calls of the table of TestEveryFaultAtEveryRequest, which is
// complete, where life is hard.
func TestHardships(t *testing.T) {
	hardship.Run(t, hardshipCalls(), knownHardships)
}

func hardshipCalls() (calls []hardship.Call) {
	for _, call := range everyFaultCalls() {
		fails := call.May
		// The hardships take longer than a lease may last without a connection.
		call.May = func(err error) bool { return fails(err) || isLost(err) }
		calls = append(calls, call)
	}
	return calls
}

// onStage prepares the call as a cell of the table of faults does.
func (f faultedCall) onStage(s *hardship.Stage) func(context.Context) error {
	c := &faultCell{t: s.T, name: s.Name, path: s.Path, server: s.Server, ours: s.Ours, theirs: s.Theirs, passesOn: s.Crowd, soon: atOnce}
	if s.Server == nil {
		c.soon = limit // of real time
	}
	call := f.prepare(c)
	s.Later = func() {
		if c.later != nil {
			c.later()
		}
	}
	s.Rival = func() {
		for _, lease := range c.held {
			_ = lease.Release(context.Background()) // lost or released, if the caller is no more
		}
		if c.tidy != nil {
			c.tidy()
		}
		c.held, c.tidy = nil, nil
		for _, rival := range c.rivals {
			release(c.t, acquire(c.t, rival))
		}
	}
	s.Returned = func(err error) {
		c.requireAlone()
		if c.check != nil && !s.Crowd {
			c.check(err)
		}
	}
	s.End = func(error) { c.end() }
	return call
}

// hold adds what the call has acquired. In a crowd it is given back at once.
func (c *faultCell) hold(lease *locks.Lease, err error) error {
	switch {
	case err != nil:
	case c.passesOn:
		if err := lease.Release(context.Background()); err != nil && !isLost(err) {
			c.t.Errorf("%s: release: %v", c.name, err)
		}
	default:
		c.held = append(c.held, lease)
	}
	return err
}

// note keeps what a call has found out. Many may make it at once.
func (c *faultCell) note(keep func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep()
}
