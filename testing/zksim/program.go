// SPDX-License-Identifier: Apache-2.0

package zksim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
)

// Program is what clients do with a recipe or a service.
type Program struct {
	// Join prepares a client, before any fault, and returns what it does at each action. The random numbers are those of the
	// action: an action does the same whichever others are left out. An action must end when its context does.
	Join func(w *World, c *Client) (act func(ctx context.Context, random *rand.Rand), err error)

	// Settled, if set, is called when faults are over and all actions have ended.
	Settled func(ctx context.Context, w *World)

	// Rules are added to those of the judge. Each is asked every 100 ms while clients act, and at the end, after Settled. It reads
	// [World.Servers], or what the program keeps in a [State], and must not wait. Its error is a finding.
	Rules []func(w *World) error

	Clients  int                // 3 by default, each in a process of its own
	Actions  int                // of each client, 6 by default
	Requests int                // that a client may make in a second, 60 by default
	Faults   []Fault            // the kinds that may happen, by default [Usual]
	Options  []framework.Option // of all clients, beside dialer, logger and server timing; sessions have 4 s by default
}

// History is what became of one run.
type History struct {
	Findings []string      // what was wrong, in order
	Log      []string      // what happened, with its fake time
	Events   int           // of the servers
	Expired  int           // sessions whose time was up
	Took     time.Duration // of fake time
}

// plan is a history as a seed draws it. Its parts may be left out one by one.
type plan struct {
	seed      uint64
	observers int
	faults    []planned
	clients   []client
}

// client is what a client does.
type client struct {
	index   int
	server  int  // the first that it connects to
	stays   bool // it knows no other
	actions []action
}

type action struct {
	pause time.Duration // before it
	seed  uint64
}

// The lengths of a history.
const (
	FaultTime = 20 * time.Second // faults happen, and end, within this time
	patience  = 3 * time.Minute  // how long after it calls may go on

	// sessionTimeout is so short that faults end sessions.
	sessionTimeout = 4 * time.Second
)

func draw(seed uint64, p Program) plan {
	random := rand.New(rand.NewPCG(seed, 1))
	drawn := plan{seed: seed}
	for range 1 + random.IntN(5) {
		drawn.faults = append(drawn.faults, drawFault(random, p))
	}
	slices.SortFunc(drawn.faults, func(a, b planned) int { return int(a.at - b.at) })
	for i := range p.Clients {
		c := client{index: i, server: random.IntN(voters), stays: random.IntN(2) == 0}
		for range p.Actions {
			c.actions = append(c.actions, action{pause: time.Duration(random.Int64N(int64(4 * time.Second))), seed: random.Uint64()})
		}
		drawn.clients = append(drawn.clients, c)
	}
	if random.IntN(4) == 0 {
		drawn.observers = 1
	}
	return drawn
}

func (p Program) withDefaults() Program {
	if p.Clients == 0 {
		p.Clients = 3
	}
	if p.Actions == 0 {
		p.Actions = 6
	}
	if p.Requests == 0 {
		p.Requests = 60
	}
	if p.Faults == nil {
		p.Faults = Usual
	}
	return p
}

// Run plays the history of a seed.
func Run(t *testing.T, seed uint64, p Program) *History {
	t.Helper()
	p = p.withDefaults()
	return play(t, draw(seed, p), p)
}

// Check plays so many histories, from a seed on, and fails the test at the first with a finding. It plays that one again ten
// times, and says how often something is found, and leaves out clients, actions and faults that it takes not. The log says how many
// histories and events of servers it has played a second, and how many sessions have expired: a history without any shows nothing about lost ones.
func Check(t *testing.T, seed uint64, histories int, p Program) {
	t.Helper()
	p = p.withDefaults()
	began, played, events, expired, fake := time.Now(), 0, 0, 0, time.Duration(0)
	defer func() {
		took := time.Since(began)
		t.Logf("%d histories with %d events of servers and %d expired sessions, %v long, in %v: %.0f histories and %.0f events a second", played, events, expired,
			fake.Round(time.Second), took.Round(time.Millisecond), float64(played)/took.Seconds(), float64(events)/took.Seconds())
	}()
	for n := range histories {
		drawn := draw(seed+uint64(n), p)
		h := play(t, drawn, p)
		played, events, expired, fake = played+1, events+h.Events, expired+h.Expired, fake+h.Took
		if len(h.Findings) == 0 {
			continue
		}
		again := 0
		for range repeats {
			if len(play(t, drawn, p).Findings) > 0 {
				again++
			}
		}
		smaller, found := shrink(t, drawn, p)
		if found == nil {
			smaller, found = drawn, h
		}
		t.Fatalf("zksim: seed %d, found again in %d of %d runs:\n%s\nfaults: %v, clients: %d\n%s", drawn.seed, again, repeats,
			strings.Join(found.Findings, "\n"), smaller.faults, len(smaller.clients), strings.Join(found.Log, "\n"))
	}
}

const repeats = 10

// shrink leaves out what a finding does not take. It returns the smallest history that has one, or nil.
func shrink(t *testing.T, drawn plan, p Program) (plan, *History) {
	t.Helper()
	var last *History
	isFound := func(smaller plan) bool {
		for range 3 {
			if h := play(t, smaller, p); len(h.Findings) > 0 {
				last = h
				return true
			}
		}
		return false
	}
	for i := len(drawn.faults) - 1; i >= 0; i-- {
		smaller := drawn
		smaller.faults = slices.Delete(slices.Clone(drawn.faults), i, i+1)
		if isFound(smaller) {
			drawn = smaller
		}
	}
	for i := len(drawn.clients) - 1; i >= 0; i-- {
		smaller := drawn
		smaller.clients = slices.Delete(slices.Clone(drawn.clients), i, i+1)
		if len(smaller.clients) > 0 && isFound(smaller) {
			drawn = smaller
			continue
		}
		for j := len(drawn.clients[i].actions) - 1; j >= 0 && len(drawn.clients[i].actions) > 1; j-- {
			smaller.clients = slices.Clone(drawn.clients)
			smaller.clients[i].actions = slices.Delete(slices.Clone(drawn.clients[i].actions), j, j+1)
			if isFound(smaller) {
				drawn = smaller
			}
		}
	}
	return drawn, last
}

func (f planned) String() string {
	return fmt.Sprintf("%s from %v for %v (%d, %d)", f.kind, f.at.Round(time.Millisecond), f.lasts.Round(time.Millisecond), f.a, f.b)
}
