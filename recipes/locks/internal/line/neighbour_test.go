// SPDX-License-Identifier: Apache-2.0

package line_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/locks/internal/line"
)

// zxid is a transaction somewhere in an epoch.
const zxid = int64(7)<<32 + 100

// afterATurn returns a line with a place that has left. Its node had number 4.
func afterATurn(t *testing.T) *line.Line {
	t.Helper()
	l := line.New(byNumber{})
	first := join(l, "o-n0000000004", line.Node{Czxid: zxid, History: 1, List: []string{"o-n0000000004"}})
	requireKnown(t, first, true)
	first.Leave(true)
	require.True(t, alone(l))
	return l
}

func join(l *line.Line, name string, n line.Node) *line.Place {
	p := l.NewPlace()
	n.Name = name
	p.Join(n)
	return p
}

func alone(l *line.Line) bool {
	p := l.NewPlace()
	defer p.Leave(false)
	return p.Alone()
}

func requireKnown(t *testing.T, p *line.Place, want bool) {
	t.Helper()
	_, known := p.Before()
	require.Equal(t, want, known)
}

// TestNeighbour is about the node after the last known one. Its folder may be a new one that was
// filled up to its number, which takes transactions: here at least ten.
func TestNeighbour(t *testing.T) {
	const epoch = int64(1) << 32
	for name, test := range map[string]struct {
		name  string
		node  line.Node
		known bool
	}{
		"after one transaction":                {"p-n0000000005", line.Node{Czxid: zxid + 1, History: 1}, true},
		"after fewer than a new folder takes":  {"p-n0000000005", line.Node{Czxid: zxid + 6, History: 1}, true},
		"after enough for a new folder":        {"p-n0000000005", line.Node{Czxid: zxid + 10, History: 1}, false},
		"in a later epoch":                     {"p-n0000000005", line.Node{Czxid: zxid + epoch, History: 1}, false},
		"in a later epoch that has just begun": {"p-n0000000005", line.Node{Czxid: 8<<32 + 1, History: 1}, false},
		"with a number between":                {"p-n0000000006", line.Node{Czxid: zxid + 2, History: 1}, false},
		"with a number that was passed":        {"p-n0000000002", line.Node{Czxid: zxid + 6, History: 1}, false},
		"with a number that is not its own":    {"p-n0000000005", line.Node{Czxid: zxid + 1, History: 1, Moved: true}, false},
		"in another history":                   {"p-n0000000005", line.Node{Czxid: zxid + 1, History: 2}, false},
		"in one of two histories":              {"p-n0000000005", line.Node{Czxid: zxid + 1}, false},
		"before it, in one of two histories":   {"p-n0000000003", line.Node{Czxid: zxid - 1}, false},
	} {
		t.Run(name, func(t *testing.T) { requireKnown(t, join(afterATurn(t), test.name, test.node), test.known) })
	}
}

// listed is a lister with one answer.
type listed line.List

func (a listed) Ask(r *line.Request) { r.Answered(line.List(a), nil) }

// TestNeighbourInANewFolder: its numbers begin again, and the last number with them.
func TestNeighbourInANewFolder(t *testing.T) {
	l := afterATurn(t)
	p := join(l, "p-n0000000001", line.Node{Czxid: zxid + 20, History: 1})
	_, err := l.List(context.Background(), false, listed{Names: []string{"f-n0000000000", "p-n0000000001"}, Pzxid: zxid + 20, History: 1})
	require.NoError(t, err)
	requireKnown(t, p, true)
	requireKnown(t, join(l, "q-n0000000005", line.Node{Czxid: zxid + 24, History: 1}), false)
	requireKnown(t, join(l, "q-n0000000002", line.Node{Czxid: zxid + 21, History: 1}), true)
}

// TestNeighbourOfTwoHistories: a node that was created while the history changed is known when a
// list shows it.
func TestNeighbourOfTwoHistories(t *testing.T) {
	l := afterATurn(t)
	p := join(l, "p-n0000000003", line.Node{Czxid: zxid - 1})
	requireKnown(t, p, false)
	_, err := l.List(context.Background(), false, listed{Names: []string{"p-n0000000003"}, Pzxid: zxid + 1, History: 1})
	require.NoError(t, err)
	requireKnown(t, p, true)
}

// TestNeighbourOfAnOlderList is not learned: what it lacks may be newer, and what it has may have left.
func TestNeighbourOfAnOlderList(t *testing.T) {
	l := line.New(byNumber{})
	p := join(l, "p-n0000000003", line.Node{
		Czxid: 13, History: 1, List: []string{"f-n0000000001", "f-n0000000002", "p-n0000000003"},
	})
	l.Left("f-n0000000001")
	_, err := l.List(context.Background(), false, listed{Names: []string{"f-n0000000001"}, Pzxid: 11, History: 1})
	require.NoError(t, err)
	before, known := p.Before()
	require.True(t, known)
	require.Equal(t, []string{"f-n0000000002", "p-n0000000003"}, before)
}

// TestNeighbourOfOurOwnThatHaveLeft are not awaited because an answer that was under way shows them.
func TestNeighbourOfOurOwnThatHaveLeft(t *testing.T) {
	l := line.New(byNumber{})
	first := join(l, "p-n0000000003", line.Node{Czxid: 13, History: 1, List: []string{"p-n0000000003"}})
	second := join(l, "q-n0000000004", line.Node{Czxid: 14, History: 1})
	first.Leave(true)
	late := line.Node{Czxid: 15, History: 1, List: []string{"p-n0000000003", "q-n0000000004", "r-n0000000005"}}
	before, known := join(l, "r-n0000000005", late).Before()
	require.True(t, known)
	require.Equal(t, []string{"q-n0000000004", "r-n0000000005"}, before)
	second.Leave(false) // the node may be there
	before, _ = l.Place("r-n0000000005").Before()
	require.Equal(t, []string{"q-n0000000004", "r-n0000000005"}, before)
}

// TestLineWithoutWaiters keeps no names of other clients' contenders: a lock may be held
// for long in a long queue.
func TestLineWithoutWaiters(t *testing.T) {
	l := line.New(byNumber{})
	held := join(l, "p-n0000000003", line.Node{Czxid: 13, History: 1, List: []string{"p-n0000000003", "f-n0000000004"}})
	require.Equal(t, 2, l.Len())
	held.Granted()
	require.Equal(t, 1, l.Len())
	next := join(l, "q-n0000000005", line.Node{Czxid: 15, History: 1})
	requireKnown(t, next, false)
	held.Leave(true)
}

// TestPlaceWakes who waits for it to leave, once, and at once if it has left.
func TestPlaceWakes(t *testing.T) {
	l := line.New(byNumber{})
	p := join(l, "p-n0000000003", line.Node{Czxid: 13, History: 1, List: []string{"p-n0000000003"}})
	awake, asleep := make(chan struct{}, 1), make(chan struct{}, 1)
	p.Wake(awake)
	p.Wake(asleep)
	p.Unwake(asleep)
	require.False(t, p.Over())
	require.Empty(t, awake)
	p.Leave(true)
	p.Leave(true)
	require.True(t, p.Over())
	require.Len(t, awake, 1)
	require.Empty(t, asleep)
	p.Wake(asleep)
	require.Len(t, asleep, 1)
}
