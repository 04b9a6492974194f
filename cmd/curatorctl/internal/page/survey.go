// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/recipes/x/schedule"
)

const (
	fresh     = time.Second            // how long a survey is shown to all that ask
	patience  = 500 * time.Millisecond // how long a viewer waits for a newer picture than the last one
	readLimit = 2 * time.Minute        // bounds one survey: a slow one is better than none

	walkLimit = 32 << 20 // bytes that are read for a list: more than 20,000 locks
	lockLimit = 1 << 20  // bytes that are read of the queue of one lock

	maxPlaces  = 32   // locks whose pictures are kept
	maxReads   = 2    // surveys that are under way
	maxOfGroup = 1000 // partitions and members, or jobs, that are kept of a group
	maxForeign = 20   // names that are kept of one recipe
	maxRuns    = 10   // that are kept of a job

	maxFindings  = 20              // about one lock
	explainEvery = 5 * time.Second // while its queue stays the same
	maxText      = 160             // bytes that are shown of what a znode says
)

// survey is one reading, of the subtree or of one lock. All that ask while it is fresh share it.
type survey struct {
	done  chan struct{}
	begun time.Time

	// These are set before done is closed.
	took    time.Duration
	found   inspect.Survey
	picture *picture             // of the list
	group   partition.Assignment // at the path of a lock, if there are partitions
	jobs    []schedule.Entry     // if there are jobs

	minute    *minute           // of a lock
	findings  []inspect.Finding // about it
	unknown   string            // what the servers have not told
	explained time.Time         // when they were found
	err       error
}

func (s *survey) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// place is what is known of one page.
type place struct {
	newest *survey // it may be under way
	last   *survey // the last one without an error, nil if there is none
}

// survey returns a fresh picture, or waits for one. With an error or while a newer one is read,
// it returns the last good one; nil if there is none.
func (h *handler) survey(ctx context.Context, lock string) (*survey, error) {
	h.mu.Lock()
	p := h.placeLocked(lock)
	if !h.client.State().IsConnected() { // or a viewer would wait as long as requests do
		defer h.mu.Unlock()
		return p.last, fmt.Errorf("page: %w", framework.ErrNotConnected)
	}
	if s := p.newest; s == nil || s.isDone() && time.Since(s.begun) >= max(fresh, 4*s.took) { // an event of serveEvents is no sooner
		p.newest = &survey{done: make(chan struct{}), begun: time.Now()}
		// Other viewers wait for it as well, and stay when this viewer leaves.
		go h.read(context.WithoutCancel(ctx), lock, p, p.newest)
	}
	s, last, silent := p.newest, p.last, h.silent
	if time.Since(h.heard) > 2*fresh {
		silent = nil
	}
	h.mu.Unlock()
	if last != nil && silent != nil && !s.isDone() { // servers that do not answer one survey do not answer the next
		return last, silent
	}
	return h.await(ctx, s, last)
}

// await waits for a survey, and not for long if there is an earlier one, which is the result if the new one fails for now.
func (h *handler) await(ctx context.Context, s, last *survey) (*survey, error) {
	var enough <-chan time.Time
	if last != nil {
		enough = time.After(patience)
	}
	select {
	case <-s.done:
	case <-enough:
		return last, h.probe(ctx)
	case <-ctx.Done():
		return last, context.Cause(ctx)
	}
	switch {
	case s.err == nil && time.Since(s.begun) < fresh:
		return s, nil
	case s.err == nil:
		return s, h.probe(ctx)
	case statusOf(s.err) == http.StatusServiceUnavailable:
		return last, s.err
	default:
		return nil, s.err
	}
}

func (h *handler) placeLocked(lock string) *place {
	p := h.places[lock]
	if p != nil {
		return p
	}
	for other, of := range h.places {
		if len(h.places) < maxPlaces {
			break
		}
		if other != "" && (of.newest == nil || of.newest.isDone()) {
			delete(h.places, other)
		}
	}
	p = new(place)
	if lock == "" || len(h.places) < 2*maxPlaces { // otherwise it is not kept
		h.places[lock] = p
	}
	return p
}

// read takes a picture.
func (h *handler) read(ctx context.Context, lock string, p *place, s *survey) {
	defer close(s.done)
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	select {
	case h.reads <- struct{}{}:
		defer func() { <-h.reads }()
	case <-ctx.Done():
		s.err = fmt.Errorf("page: %w", context.Cause(ctx))
		return
	}
	h.mu.Lock()
	last := p.last
	h.mu.Unlock()
	s.err = h.paint(ctx, lock, last, s)
	s.took = time.Since(s.begun)
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.err == nil {
		p.last = s
	} else if statusOf(s.err) != http.StatusServiceUnavailable {
		p.last = nil // it is certain that there is nothing to show
	}
}

func (h *handler) paint(ctx context.Context, lock string, last, s *survey) (err error) {
	if lock == "" {
		s.found, err = inspect.Walk(ctx, h.client, h.path, inspect.HeadsOnly(), inspect.WithMemoryLimit(walkLimit))
		s.picture = newPicture(s.found.Recipes)
		return err
	}
	s.found.Recipes, err = inspect.At(ctx, h.client, lock, inspect.WithMemoryLimit(lockLimit))
	if err != nil {
		return err
	}
	if err := h.explain(ctx, lock, last, s); err != nil {
		return err
	}
	turns, since := h.contention.turns(lock)
	s.minute = minuteOf(turns, since, time.Now())
	for i := range s.found.Recipes {
		r := &s.found.Recipes[i]
		r.Foreign = some(r.Foreign)
		switch r.Kind {
		case inspect.Partitions:
			s.group, err = partition.Read(ctx, h.client, lock)
			s.found.Partial = max(len(s.group.Partitions), len(s.group.Members)) > maxOfGroup
			s.group.Partitions = slices.Clone(s.group.Partitions[:min(len(s.group.Partitions), maxOfGroup)])
			s.group.Members = slices.Clone(s.group.Members[:min(len(s.group.Members), maxOfGroup)])
		case inspect.Jobs:
			s.jobs, err = schedule.List(ctx, h.client, lock)
			s.found.Partial = len(s.jobs) > maxOfGroup
			s.jobs = slices.Clone(s.jobs[:min(len(s.jobs), maxOfGroup)])
			for i := range s.jobs {
				shorten(&s.jobs[i])
			}
		default:
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shorten bounds what is kept of a job: a state that its replicas have not written may be long.
func shorten(e *schedule.Entry) {
	e.Problem, e.Runner = cut(e.Problem), cut(e.Runner)
	e.History = slices.Clone(e.History[:min(len(e.History), maxRuns)])
	for i := range e.History {
		run := &e.History[i]
		run.Runner, run.Error, run.Outcome = cut(run.Runner), cut(run.Error), schedule.Outcome(cut(string(run.Outcome)))
	}
}

// explain says why a lock is stuck. The servers are asked for their sessions, so an explanation of the same queue is kept for a while.
func (h *handler) explain(ctx context.Context, lock string, last, s *survey) error {
	if last != nil && time.Since(last.explained) < explainEvery && slices.EqualFunc(last.found.Recipes, s.found.Recipes, isSameQueue) {
		s.findings, s.unknown, s.explained = last.findings, last.unknown, last.explained
		return nil
	}
	e, err := inspect.Explain(ctx, h.client, lock, inspect.WithMemoryLimit(lockLimit))
	if err != nil {
		return err
	}
	s.findings, s.unknown, s.explained = e.Findings[:min(len(e.Findings), maxFindings)], cut(e.Unknown), time.Now()
	for i := range s.findings {
		s.findings[i].Advice = slices.DeleteFunc(s.findings[i].Advice, func(a inspect.Advice) bool { return len(a.Command) > 2*maxLink })
	}
	return nil
}

func isSameQueue(a, b inspect.Recipe) bool {
	return a.Kind == b.Kind && slices.EqualFunc(a.Participants, b.Participants, func(a, b locks.Participant) bool {
		return a.Token == b.Token && a.Holds == b.Holds && a.Identity == b.Identity
	})
}

// some returns the first of many names, without the memory of the others, and says how many there are more.
func some(names []string) (first []string) {
	for i, name := range names {
		if i == maxForeign {
			return append(first, fmt.Sprintf("and %d more", len(names)-i))
		}
		first = append(first, strings.Clone(name))
	}
	return first
}

// cut returns the beginning of a text.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "\uFFFD") + "…"
}

// errSilent is the error while there is a connection and the server does not answer.
var errSilent = errors.New("the server does not answer")

// probe asks the server for a sign of life, once for all viewers in a while.
type probe struct {
	done  chan struct{}
	begun time.Time
	err   error
}

func (h *handler) probe(ctx context.Context) error {
	if !h.client.State().IsConnected() {
		return fmt.Errorf("page: %w", framework.ErrNotConnected)
	}
	h.mu.Lock()
	p := h.asked
	if p == nil || time.Since(p.begun) >= patience {
		p = &probe{done: make(chan struct{}), begun: time.Now()}
		h.asked = p
		go func() {
			defer close(p.done)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			switch _, err := h.client.Exists(ctx, h.path); {
			case err == nil, errors.Is(err, framework.ErrNoAuth):
			case ctx.Err() != nil:
				p.err = fmt.Errorf("page: %w", errSilent)
			default:
				p.err = err
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.silent, h.heard = p.err, time.Now()
		}()
	}
	h.mu.Unlock()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
