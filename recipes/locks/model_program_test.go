// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// program is what some owners do with one lock, and what happens to their clients
// meanwhile. Its String is meant to be read: it is what a failing check prints.
type program struct {
	recipe  *recipe
	clients int
	seed    uint64 // of how long each request takes
	wraps   bool   // the sequence numbers are about to turn negative
	steps   []step
}

// step is done by an actor, or to its client, some time after the step before,
// whether or not that has come to an end. One that makes no sense then, such as a
// release of nothing, is left out.
type step struct {
	pause time.Duration
	actor int
	verb  verb
	owned bool // acquires with the ownership of what the actor got last
	n     int  // permits; which lease; whom to ask; the new maximum
}

// many is the number of an acquisition.
func (s step) many() int { return max(s.n, 1) }

// verb is what a step does.
type verb string

const (
	restIt             verb = "rest"    // nothing: what rapid makes of steps that do not matter
	acquireIt          verb = "acquire" // a permit, the mutex, the write side
	tryIt              verb = "try"
	readIt             verb = "read"
	tryReadIt          verb = "try to read"
	downgradeIt        verb = "become a reader" // acquires the read side as the owner of a lease, and releases that one
	turnIt             verb = "go on"           // to the next of: acquire, become a reader, release; see [actor.next]
	releaseIt          verb = "release"
	cancelIt           verb = "cancel"         // the context of the acquisition that waits
	revokeIt           verb = "ask for"        // another's lease
	resizeIt           verb = "set maximum"    // of a semaphore
	deleteIt           verb = "delete"         // the node of some contender
	forgeIt            verb = "make by hand"   // a contender with a number ahead, which goes soon
	killIt             verb = "session killed" // of the actor's client
	loseIt             verb = "reply lost"     // of the client's next request, and its connection
	maxActors               = 6
	maxPermits              = 3
	minSteps, maxSteps      = 5, 20
	stepsOfCrowd            = 60
)

// drawProgram draws a program for the recipe.
func drawProgram(t *rapid.T, r *recipe) program {
	p := program{
		recipe:  r,
		clients: rapid.IntRange(1, 3).Draw(t, "clients"),
		seed:    rapid.Uint64Max(1<<16).Draw(t, "seed"),
		wraps:   rapid.IntRange(0, 3).Draw(t, "wraps") == 3,
	}
	verbs := rapid.SampledFrom(r.verbs)
	pauses := rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(0, 3000))
	steps := stepsOfCrowd
	if !r.crowd {
		steps = rapid.IntRange(minSteps, maxSteps).Draw(t, "steps")
	}
	for range steps {
		p.steps = append(p.steps, step{
			verb:  verbs.Draw(t, "verb"),
			actor: rapid.IntRange(0, maxActors-1).Draw(t, "actor"),
			pause: time.Duration(pauses.Draw(t, "pause")) * 100 * time.Microsecond,
			owned: rapid.Bool().Draw(t, "owned"),
			n:     rapid.IntRange(0, maxPermits).Draw(t, "n"),
		})
	}
	return p
}

// GoString is for rapid, which prints what it draws.
func (p program) GoString() string { return p.String() }

// clientOf is the client of an actor: actors 0 and 2 share one of two.
func (p program) clientOf(actor int) int { return actor % p.clients }

// String has a line for each step.
func (p program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, requests take times of seed %d", p.recipe.name, p.seed)
	if p.wraps {
		b.WriteString(", sequence numbers are about to wrap")
	}
	var at time.Duration
	for _, s := range p.steps {
		at += s.pause
		if s.verb == restIt {
			continue
		}
		fmt.Fprintf(&b, "\n  %8v  client %d, actor %d: %v", at, p.clientOf(s.actor), s.actor, p.describe(s))
	}
	fmt.Fprintf(&b, "\n  %8v  all that is held is released, and whoever waits gets his turn", at)
	return b.String()
}

func (p program) describe(s step) string {
	what := string(s.verb)
	switch s.verb {
	case acquireIt, tryIt:
		switch {
		case p.recipe.several:
			what += fmt.Sprintf(" %d", s.many())
		case p.recipe.members != nil:
			what += fmt.Sprintf(" %v", p.recipe.members(s.many()))
		}
	case releaseIt:
		what += fmt.Sprintf(" %d", s.n)
	case revokeIt:
		what += fmt.Sprintf(" what actor %d has", s.n)
	case deleteIt:
		what += fmt.Sprintf(" node %d of %s", s.n, p.recipe.folderOf(s.actor))
	case forgeIt:
		what += fmt.Sprintf(" a contender %d ahead in %s", s.n+1, p.recipe.folderOf(s.actor))
	case resizeIt:
		what += fmt.Sprintf(" to %d", s.n)
	default: // says all
	}
	if s.owned && p.recipe.acquires(s.verb) {
		what += " with the context of its lease"
	}
	return what
}
