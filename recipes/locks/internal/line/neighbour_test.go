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

// Two connections.
const link, nextLink = "a connection", "the next connection"

// afterATurn returns a line with a place that has left. Its node had number 4.
func afterATurn(t *testing.T) *line.Line {
	t.Helper()
	l := line.New(byNumber{})
	first := join(l, "o-n0000000004", line.Node{Czxid: zxid, History: 1, List: []string{"o-n0000000004"}})
	requireKnown(t, first, true)
	first.Leave(true)
	require.True(t, alone(l, link))
	return l
}

// join joins a node that was created over link, unless it says another connection.
func join(l *line.Line, name string, n line.Node) *line.Place {
	p := l.NewPlace()
	n.Name = name
	if n.Link == nil && n.History != 0 {
		n.Link = link
	}
	p.Join(n)
	return p
}

func alone(l *line.Line, link any) bool {
	p := l.NewPlace()
	defer p.Leave(false)
	return p.Alone(link)
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
		"over another connection":              {"p-n0000000005", line.Node{Czxid: zxid + 1, History: 1, Link: nextLink}, false},
		"in one of two histories":              {"p-n0000000005", line.Node{Czxid: zxid + 1}, false},
		"before it, in one of two histories":   {"p-n0000000003", line.Node{Czxid: zxid - 1}, false},
	} {
		t.Run(name, func(t *testing.T) { requireKnown(t, join(afterATurn(t), test.name, test.node), test.known) })
	}
}

// asked is a lister whose lists are answered by a test.
type asked chan *line.Request

func (a asked) Ask(r *line.Request) { r.Sent(); a <- r }

// ask has a list sent, and returns a function with which its answer arrives.
func ask(l *line.Line) (arrive func(line.List)) {
	requests, taken := make(asked), make(chan struct{})
	go func() {
		defer close(taken)
		_, _ = l.List(context.Background(), true, requests) // the answer is no error
	}()
	r := <-requests
	return func(answer line.List) {
		if answer.Link == nil {
			answer.Link = link
		}
		r.Answered(answer, nil)
		<-taken
	}
}

// TestNeighbourInANewFolder: its numbers begin again, and the last number with them.
func TestNeighbourInANewFolder(t *testing.T) {
	l := afterATurn(t)
	p := join(l, "p-n0000000001", line.Node{Czxid: zxid + 20, History: 1})
	ask(l)(line.List{Names: []string{"f-n0000000000", "p-n0000000001"}, Pzxid: zxid + 20, History: 1})
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
	ask(l)(line.List{Names: []string{"p-n0000000003"}, Pzxid: zxid + 1, History: 1})
	requireKnown(t, p, true)
}

// TestNeighbourOfAnOlderList is not learned: what it lacks may be newer, and what it has may have left.
func TestNeighbourOfAnOlderList(t *testing.T) {
	l := line.New(byNumber{})
	join(l, "o-n0000000000", line.Node{Czxid: 10, History: 1, List: []string{"o-n0000000000"}}).Leave(true)
	arrive := ask(l)
	p := join(l, "p-n0000000003", line.Node{
		Czxid: 13, History: 1, List: []string{"f-n0000000001", "f-n0000000002", "p-n0000000003"},
	})
	l.Left("f-n0000000001")
	arrive(line.List{Names: []string{"f-n0000000001"}, Pzxid: 11, History: 1})
	requireBefore(t, p, "f-n0000000002", "p-n0000000003")
}

func requireBefore(t *testing.T, p *line.Place, want ...string) {
	t.Helper()
	before, known := p.Before()
	require.True(t, known)
	require.Equal(t, want, before)
}

// TestNeighbourOfANumberByHand: a node that was created by name may have any number. The server
// gives that number once more, and the next one proves nothing.
func TestNeighbourOfANumberByHand(t *testing.T) {
	l := line.New(byNumber{})
	names := []string{"p-n0000000003", "h-n0000000005"}
	p := join(l, "p-n0000000003", line.Node{Czxid: zxid, History: 1, List: names})
	requireBefore(t, p, "p-n0000000003")
	ask(l)(line.List{Names: names, Pzxid: zxid, History: 1})
	requireKnown(t, join(l, "q-n0000000006", line.Node{Czxid: zxid + 3, History: 1}), false)
	// The next number after ours was given to no node by hand, whatever its name.
	requireBefore(t, join(l, "q-n0000000004", line.Node{Czxid: zxid + 1, History: 1}), "p-n0000000003", "q-n0000000004")
}

// TestNeighbourOfANumberThatWasTaken: a node in the place of another one has a number that the server has not given it. In a
// folder where the other one never was, the server may give the number later.
func TestNeighbourOfANumberThatWasTaken(t *testing.T) {
	l := line.New(byNumber{})
	join(l, "p-n0000000003", line.Node{Czxid: zxid, History: 1, Moved: true, List: []string{"p-n0000000003"}}).Leave(true)
	requireKnown(t, join(l, "q-n0000000004", line.Node{Czxid: zxid + 2, History: 1}), false)
}

// TestNeighbourOfANodeThatHasLeft: a list without our last node takes no number away, unless it came
// over another connection. There the node may have been created again.
func TestNeighbourOfANodeThatHasLeft(t *testing.T) {
	for _, next := range []string{link, nextLink} {
		l := afterATurn(t)
		require.Equal(t, next == link, alone(l, next))
		ask(l)(line.List{Pzxid: zxid + 1, History: 1, Link: next})
		requireKnown(t, join(l, "p-n0000000005", line.Node{Czxid: zxid + 2, History: 1, Link: next}), next == link)
	}
}

// TestNeighbourOverAnotherConnection makes no other place known: restored servers may have given
// it a number that they had given before.
func TestNeighbourOverAnotherConnection(t *testing.T) {
	l := afterATurn(t)
	lost := join(l, "p-n0000000007", line.Node{Czxid: zxid + 3, History: 1})
	join(l, "q-n0000000005", line.Node{Czxid: zxid + 5, History: 1, Link: nextLink})
	requireKnown(t, lost, false)
}

// TestNeighbourOfTheNewestNumber: a list that shows an older node of ours takes no newer number away.
func TestNeighbourOfTheNewestNumber(t *testing.T) {
	l := afterATurn(t)
	join(l, "p-n0000000005", line.Node{Czxid: zxid + 1, History: 1})
	join(l, "q-n0000000006", line.Node{Czxid: zxid + 2, History: 1}).Leave(true)
	ask(l)(line.List{Names: []string{"p-n0000000005"}, Pzxid: zxid + 3, History: 1})
	requireKnown(t, join(l, "r-n0000000007", line.Node{Czxid: zxid + 4, History: 1}), true)
}

// TestOlderListOfAnotherHistory: a list that is sent after the horizon was learned, and is older,
// comes from restored servers. It is learned, and a node that it lacks is gone.
func TestOlderListOfAnotherHistory(t *testing.T) {
	for _, next := range []string{link, nextLink} {
		l := line.New(byNumber{})
		first := join(l, "p-n0000000003", line.Node{Czxid: zxid, History: 1, List: []string{"f-n0000000002", "p-n0000000003"}})
		second := join(l, "q-n0000000004", line.Node{Czxid: zxid + 9, History: 1})
		requireKnown(t, second, false)
		requireBefore(t, first, "f-n0000000002", "p-n0000000003")
		ask(l)(line.List{Names: []string{"f-n0000000001"}, Pzxid: zxid - 2, History: 1, Link: next})
		for _, p := range []*line.Place{first, second} {
			before, _ := p.Before()
			require.NotContains(t, before, p.Name())
			require.Nil(t, l.Place(p.Name()))
		}
		// Otherwise it would be known when the horizon passes it.
		third := join(l, "r-n0000000005", line.Node{Czxid: zxid + 20, History: 1, Link: next, List: []string{"r-n0000000005"}})
		requireBefore(t, third, "r-n0000000005")
	}
}

// TestOlderHistory: the servers have begun again, and their transactions are smaller. A list and a creation from before say nothing
// about what there is now, and the list is asked for again.
func TestOlderHistory(t *testing.T) {
	l := line.New(byNumber{})
	requests, listed := make(asked), make(chan []string)
	go func() {
		contenders, _ := l.List(context.Background(), true, requests) // the answer is no error
		listed <- contenders
	}()
	before := <-requests
	p := join(l, "p-n0000000003", line.Node{Czxid: 20, History: 2, Link: nextLink, List: []string{"f-n0000000002", "p-n0000000003"}})
	old := join(l, "o-n0000000008", line.Node{Czxid: zxid, History: 1, List: []string{"o-n0000000008"}})
	requireKnown(t, old, false)
	requireBefore(t, p, "f-n0000000002", "p-n0000000003")
	before.Answered(line.List{Names: []string{"g-n0000000001"}, Pzxid: zxid, History: 1, Link: link}, nil)
	select {
	case again := <-requests:
		requireBefore(t, p, "f-n0000000002", "p-n0000000003")
		again.Answered(line.List{Names: []string{"p-n0000000003"}, Pzxid: 21, History: 2, Link: nextLink}, nil)
		require.Equal(t, []string{"p-n0000000003"}, <-listed)
	case contenders := <-listed:
		require.Fail(t, "it was learned", "%v", contenders)
	}
}

// TestOlderListOfTheSameConnection that shows a node of ours is as new as the node: servers may
// leave the transaction of the folder behind.
func TestOlderListOfTheSameConnection(t *testing.T) {
	l := line.New(byNumber{})
	p := join(l, "p-n0000000003", line.Node{Czxid: zxid, History: 1, List: []string{"f-n0000000002", "p-n0000000003"}})
	ask(l)(line.List{Names: []string{"p-n0000000003"}, Pzxid: zxid - 1, History: 1})
	requireBefore(t, p, "p-n0000000003")
	requireKnown(t, join(l, "q-n0000000004", line.Node{Czxid: zxid + 1, History: 1}), true)
}

// TestBehindAKnownPlaceStandsAForeignOne: of two places of ours the first is known, and the second
// is not, as there is a contender of another client between them.
func TestBehindAKnownPlaceStandsAForeignOne(t *testing.T) {
	l := line.New(byNumber{})
	first := join(l, "p-n0000000003", line.Node{Czxid: zxid, History: 1, List: []string{"p-n0000000003"}})
	second := join(l, "q-n0000000005", line.Node{Czxid: zxid + 2, History: 1})
	requireKnown(t, first, true)
	requireKnown(t, second, false)
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
