// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

// meeting is a contest between both sides, and what is expected to come out.
type meeting struct {
	contest

	server  zktest.Backend
	before  zktest.Counts
	wg      sync.WaitGroup
	holds   map[string]int // of each contender
	counter int
}

func newMeeting(t *testing.T, server zktest.Backend) *meeting {
	t.Helper()
	return &meeting{contest: newContest(t), server: server, before: server.Counts(t), holds: make(map[string]int)}
}

// java has an actor make the lock m with the command and its arguments, and take
// turns at it as java/Contest.java does: at m itself, or at one side of it.
func (m *meeting) java(t *testing.T, turns int, how, lock, command string, args ...string) {
	t.Helper()
	m.theirs(t, newActor(t, m.server), turns, how, lock, command, args...)
}

// kazoo does the same with an actor in Python, as python/contest.py does.
func (m *meeting) kazoo(t *testing.T, turns int, how, command string, args ...string) {
	t.Helper()
	m.theirs(t, newKazoo(t, m.server), turns, how, "m", command, args...)
}

func (m *meeting) theirs(t *testing.T, a actor, turns int, how, lock, command string, args ...string) {
	t.Helper()
	a.do(t, command, append([]string{"m"}, args...)...)
	m.holds[a.Name()] = turns
	if how == "contend" {
		m.counter += turns
	}
	answer := a.Begin(how, lock, m.folder, strconv.Itoa(turns))
	m.wg.Go(func() {
		if _, err := answer(zktest.Context(t)); err != nil {
			t.Errorf("%s: %v", a.Name(), err)
		}
		a.close(t) // and with it Curator's watch on the ensemble
	})
}

// observer returns a client that stays until the test ends.
func (m *meeting) observer(t *testing.T) *framework.Framework {
	t.Helper()
	m.before.Sessions++
	return zktest.Client(t, m.server.ConnectString())
}

// ours has a contender in Go take the turns that it plans with a client of its own.
// The client is closed after them: one that fails does not keep the others waiting.
func (m *meeting) ours(t *testing.T, plan func(*framework.Framework) (turns func(context.Context) error)) {
	t.Helper()
	client := zktest.Client(t, m.server.ConnectString())
	turns := plan(client)
	m.wg.Go(func() {
		if err := turns(zktest.Context(t)); err != nil {
			t.Error(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

// end waits for everybody. It fails the test when one was let in who had to wait, or
// when a node or a watch has been left.
func (m *meeting) end(t *testing.T, lock queue) finding {
	t.Helper()
	m.wg.Wait()
	f := m.find(t)
	require.Empty(t, f.overlaps, "a hold during an exclusive one, or the other way round")
	require.Equal(t, m.holds, f.holds)
	require.Equal(t, m.counter, f.counter)
	require.Empty(t, awaitQueue(t, lock, 0))
	m.server.AwaitCounts(t, m.before, limit)
	return f
}
