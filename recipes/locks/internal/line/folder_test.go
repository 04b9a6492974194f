package line_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/locks/internal/line"
)

// afterATurn returns a line of which one place has been, with number 4 in the given transaction.
func afterATurn(t *testing.T, czxid int64) *line.Line {
	t.Helper()
	l := line.New(byNumber{})
	first := l.Join("o-n0000000004", line.Newcomer{Czxid: czxid, Began: l.Tick(), List: []string{"o-n0000000004"}})
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

// TestANeighbourIsInTheSameFolder: the folder may have been deleted and filled up to the number
// of a neighbour in between, but that takes its transactions.
func TestANeighbourIsInTheSameFolder(t *testing.T) {
	const epoch, zxid = int64(1) << 32, int64(7)<<32 + 100
	for name, test := range map[string]struct {
		name  string
		czxid int64
		known bool
	}{
		"after one transaction":                        {"p-n0000000005", zxid + 1, true},
		"after as many as a new folder never does":     {"p-n0000000005", zxid + 6, true},
		"after enough for a new folder":                {"p-n0000000005", zxid + 8, false},
		"in a later epoch":                             {"p-n0000000005", zxid + epoch, false},
		"in a later epoch that has just begun":         {"p-n0000000005", 8<<32 + 1, false},
		"with a number between":                        {"p-n0000000006", zxid + 2, false},
		"with a number that was passed, and not alone": {"p-n0000000002", zxid + 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := afterATurn(t, zxid)
			requireKnown(t, l.Join(test.name, line.Newcomer{Czxid: test.czxid, Began: l.Tick()}), test.known)
		})
	}
}

// TestTheFirstOfANewFolder has none before it.
func TestTheFirstOfANewFolder(t *testing.T) {
	l := afterATurn(t, 100)
	requireKnown(t, l.Join("p-n0000000000", line.Newcomer{Czxid: 200, Began: l.Tick()}), true)
}

// TestANodeThatWasNotFoundIsNoEvidence: the folder may have gone with it.
func TestANodeThatWasNotFoundIsNoEvidence(t *testing.T) {
	l := afterATurn(t, 100)
	l.Doubt()
	require.False(t, l.Alone())
	requireKnown(t, l.Join("p-n0000000005", line.Newcomer{Czxid: 101, Began: l.Tick()}), false)
}

// TestAnOlderListHidesNothing: its names that have left do not come back, and later ones stay.
func TestAnOlderListHidesNothing(t *testing.T) {
	l := line.New(byNumber{})
	early := l.Tick()
	third := l.Join("o-n0000000003", line.Newcomer{
		Czxid: 13, Began: l.Tick(), List: []string{"f-n0000000001", "f-n0000000002", "o-n0000000003"},
	})
	l.Left("f-n0000000001")
	zero := l.Join("o-n0000000000", line.Newcomer{
		Czxid: 10, Began: early, List: []string{"o-n0000000000", "f-n0000000001"},
	})
	before, known := third.Before()
	if known { // or the older place was refused, and all is listed again
		require.Contains(t, before, "f-n0000000002")
	}
	require.NotNil(t, zero)
}
