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
	first := l.Join(line.Node{Name: "o-n0000000004", Czxid: zxid, History: 1, List: []string{"o-n0000000004"}})
	requireKnown(t, first, true)
	first.Leave(true)
	require.True(t, l.Alone())
	return l
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
		node  line.Node
		known bool
	}{
		"after one transaction":                {line.Node{Name: "p-n0000000005", Czxid: zxid + 1, History: 1}, true},
		"after fewer than a new folder takes":  {line.Node{Name: "p-n0000000005", Czxid: zxid + 6, History: 1}, true},
		"after enough for a new folder":        {line.Node{Name: "p-n0000000005", Czxid: zxid + 10, History: 1}, false},
		"in a later epoch":                     {line.Node{Name: "p-n0000000005", Czxid: zxid + epoch, History: 1}, false},
		"in a later epoch that has just begun": {line.Node{Name: "p-n0000000005", Czxid: 8<<32 + 1, History: 1}, false},
		"with a number between":                {line.Node{Name: "p-n0000000006", Czxid: zxid + 2, History: 1}, false},
		"with a number that was passed":        {line.Node{Name: "p-n0000000002", Czxid: zxid + 6, History: 1}, false},
		"with a number that is not its own":    {line.Node{Name: "p-n0000000005", Czxid: zxid + 1, History: 1, Moved: true}, false},
		"in another history":                   {line.Node{Name: "p-n0000000005", Czxid: zxid + 1, History: 2}, false},
		"in one of two histories":              {line.Node{Name: "p-n0000000005", Czxid: zxid + 1}, false},
	} {
		t.Run(name, func(t *testing.T) { requireKnown(t, afterATurn(t).Join(test.node), test.known) })
	}
}

// listed is a lister with one answer.
type listed line.List

func (listed) Ready() error               { return nil }
func (a listed) List() (line.List, error) { return line.List(a), nil }

// TestNeighbourInANewFolder: its numbers begin again, and the last number with them.
func TestNeighbourInANewFolder(t *testing.T) {
	l := afterATurn(t)
	p := l.Join(line.Node{Name: "p-n0000000001", Czxid: zxid + 20, History: 1})
	_, err := l.List(context.Background(), false, listed{Names: []string{"f-n0000000000", "p-n0000000001"}, Pzxid: zxid + 20, History: 1})
	require.NoError(t, err)
	requireKnown(t, p, true)
	requireKnown(t, l.Join(line.Node{Name: "q-n0000000005", Czxid: zxid + 24, History: 1}), false)
	requireKnown(t, l.Join(line.Node{Name: "q-n0000000002", Czxid: zxid + 21, History: 1}), true)
}

// TestAnOlderList is not learned: what it lacks may be newer, and what it has may have left.
func TestAnOlderList(t *testing.T) {
	l := line.New(byNumber{})
	p := l.Join(line.Node{
		Name: "p-n0000000003", Czxid: 13, History: 1, List: []string{"f-n0000000001", "f-n0000000002", "p-n0000000003"},
	})
	l.Left("f-n0000000001")
	_, err := l.List(context.Background(), false, listed{Names: []string{"f-n0000000001"}, Pzxid: 11, History: 1})
	require.NoError(t, err)
	before, known := p.Before()
	require.True(t, known)
	require.Equal(t, []string{"f-n0000000002", "p-n0000000003"}, before)
}

// TestOurOwnThatHaveLeft are not awaited because an answer that was under way shows them.
func TestOurOwnThatHaveLeft(t *testing.T) {
	l := line.New(byNumber{})
	first := l.Join(line.Node{Name: "p-n0000000003", Czxid: 13, History: 1, List: []string{"p-n0000000003"}})
	second := l.Join(line.Node{Name: "q-n0000000004", Czxid: 14, History: 1})
	first.Leave(true)
	late := line.Node{Name: "r-n0000000005", Czxid: 15, History: 1, List: []string{"p-n0000000003", "q-n0000000004", "r-n0000000005"}}
	before, known := l.Join(late).Before()
	require.True(t, known)
	require.Equal(t, []string{"q-n0000000004", "r-n0000000005"}, before)
	second.Leave(false) // the node may be there
	before, _ = l.Place("r-n0000000005").Before()
	require.Equal(t, []string{"q-n0000000004", "r-n0000000005"}, before)
}
