// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/checker"
	"github.com/gocurator/curator/testing/zkserver"
)

// do begins a step.
func (w *world) do(s step) {
	a := w.actors[s.actor]
	switch s.verb {
	case restIt:
	case turnIt:
		w.do(a.next(s))
	case releaseIt:
		if g := a.pick(s.n); g != nil {
			w.release(g)
		}
	case cancelIt:
		a.mu.Lock()
		if a.cancel != nil {
			a.cancel()
		}
		a.mu.Unlock()
	case revokeIt:
		if g := w.actors[s.n].pick(-1); g != nil {
			w.revoke(a, g)
		}
	case deleteIt:
		w.vandalize(a, w.program.recipe.folderOf(s.actor), s.n)
	case forgeIt:
		w.forge(a, w.program.recipe.folderOf(s.actor), s.n)
	case resizeIt:
		w.resize(a, s.n)
	case killIt:
		w.kill(a.client)
	case loseIt:
		a.client.mu.Lock()
		a.client.cut = true
		a.client.mu.Unlock()
		a.client.next.Store(1)
	default:
		w.acquire(a, s)
	}
}

// next returns what an actor does to go on: so nearly every step does something.
func (a *actor) next(s step) step {
	g := a.pick(-1)
	switch {
	case g == nil && s.owned:
		s.verb = acquireIt
	case g == nil:
		s.verb = readIt
	case !g.shared && s.n > 0:
		s.verb = downgradeIt
	default:
		s.verb = releaseIt
	}
	return s
}

// revoke asks for a grant, whose owner obliges.
func (w *world) revoke(a *actor, g *grant) {
	lease := g.leases[0]
	w.begun.Go(func() {
		if err := locks.AttemptRevoke(context.Background(), a.client.Framework, lease.Path()); err != nil {
			w.failf("revoke: %w", err)
			return
		}
		select {
		case <-lease.Revoked():
			w.release(g)
		case <-lease.Done():
		case <-time.After(limit):
			w.failf("%s was asked for, and its owner was not told", lease.Path())
		}
	})
}

// vandalize deletes the n-th node of a folder, whosever it is.
func (w *world) vandalize(a *actor, folder string, n int) {
	w.begun.Go(func() {
		ctx := context.Background()
		names, err := a.client.Children(ctx, folder)
		if err != nil || len(names) == 0 {
			return // nobody has been here yet, or the request was lost
		}
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
		victim := framework.JoinPath(folder, names[n%len(names)])
		w.mu.Lock()
		if _, ok := w.deleted[victim]; !ok {
			w.deleted[victim] = w.history.Now()
		}
		w.mu.Unlock()
		err = a.client.Delete(ctx, victim)
		if err != nil && !errors.Is(err, framework.ErrNoNode) && !framework.OutcomeUnknown(err) {
			w.failf("delete: %w", err)
		}
	})
}

// forge creates a contender by name, with a number that the server has not given yet and will give again, and
// deletes it after a while. Its name is of the newest contender's form.
func (w *world) forge(a *actor, folder string, n int) {
	w.begun.Go(func() {
		ctx := context.Background()
		names, err := a.client.Children(ctx, folder)
		if err != nil || len(names) == 0 || w.program.wraps { // a number ahead has another sign then
			return
		}
		newest := slices.MaxFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
		number, err := strconv.Atoi(newest[len(newest)-10:])
		if err != nil {
			w.failf("forge: %w", err)
			return
		}
		form := newest[len("_c_")+len(uuid.Nil.String()) : len(newest)-10]
		forged := framework.JoinPath(folder, fmt.Sprintf("_c_%v%s%010d", uuid.New(), form, number+1+n))
		_, err = a.client.Create(ctx, forged, nil, framework.WithMode(framework.Ephemeral), framework.Idempotent())
		if err != nil && !framework.OutcomeUnknown(err) && !errors.Is(err, framework.ErrNoNode) && !errors.Is(err, framework.ErrSessionEnded) {
			w.failf("forge: %w", err)
		}
		time.Sleep(time.Duration(n+1) * 100 * time.Millisecond)
		if err := a.client.Delete(ctx, forged, framework.Guaranteed()); err != nil && !errors.Is(err, framework.ErrNoNode) && !framework.OutcomeUnknown(err) {
			w.failf("delete what was forged: %w", err)
		}
	})
}

// vandalized returns the time from which on a vandal may have deleted a node, and
// reports whether one has by now.
func (w *world) vandalized(node string) (since int64, ok bool) {
	w.mu.Lock()
	since, ok = w.deleted[node]
	w.mu.Unlock()
	return since, ok && w.isDeleted(node)
}

// isDeleted reports whether the server has applied a request to delete the node. The
// vandal does not always know: its session may end before its request is served.
func (w *world) isDeleted(node string) bool {
	return w.deletedAt(node) != 0
}

// deletedAt returns when the server has deleted a node by request, or 0.
func (w *world) deletedAt(node string) time.Duration {
	for _, e := range w.server.Log() {
		applied := e.Kind == zkserver.Served && e.Err == 0 || e.Kind == zkserver.Faulted && e.Fault == zkserver.LoseReply
		if applied && e.Request.Op == zkserver.OpDelete && e.Request.Path == node {
			return e.At
		}
	}
	return 0
}

// unwatched is for how long a contender that is let in may not know that a vandal has deleted its
// node: it has watched the node, or a server has shown it in the last 20 ms.
const unwatched = 20*time.Millisecond + 2*slowestRequest

// isGhost reports whether nothing was acquired, as a vandal had deleted the node: a hold was
// entered again before its owner was told, or its waiter did not watch the node yet.
func (w *world) isGhost(node string) bool {
	w.mu.Lock()
	_, again := w.nodes[node]
	w.nodes[node] = struct{}{}
	w.mu.Unlock()
	_, gone := w.vandalized(node)
	return gone && (again || time.Duration(w.history.Now())-w.deletedAt(node) < unwatched)
}

func (w *world) isVandalized() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.deleted) > 0
}

// resize changes the maximum, unless that is being done: nobody knows which of two
// that overlap is the last.
func (w *world) resize(a *actor, n int) {
	if w.resizing.Swap(true) {
		return
	}
	w.begun.Go(func() {
		defer w.resizing.Store(false)
		call := w.history.Now()
		err := sharedLeases(a.client.Framework).Set(context.Background(), n)
		returned := w.history.Now()
		switch {
		case framework.OutcomeUnknown(err):
			returned = math.MaxInt64
		case err != nil:
			w.failf("set the maximum: %w", err)
			return
		}
		w.history.Add(checker.Op{Kind: checker.Resize, Lock: w.program.recipe.folders[0], N: n, Call: call, Return: returned})
	})
}

// kill ends the session of a client at the server.
func (w *world) kill(c *modelClient) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills = append(c.kills, w.history.Now())
	w.server.KillSession(c.Session().ID())
}

// isHurt tells whether the client has lost a session or a connection, or may have.
func (c *modelClient) isHurt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut || len(c.kills) > 0
}
