package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// span is a hold as a test writes it, in milliseconds; until 0 is a hold that
// never ends.
type span struct {
	token       int64
	from, until int
}

func record(spans ...span) *checker {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	c := new(checker)
	for _, s := range spans {
		h := c.begin(s.token, nil, at(s.from), at(s.from))
		if s.until != 0 {
			h.end(at(s.until))
		}
	}
	return c
}

func TestCheckerFinds(t *testing.T) {
	for name, test := range map[string]struct {
		holds                 []span
		overlaps, regressions int
	}{
		"nothing in an empty record":          {},
		"nothing in holds one after another":  {holds: []span{{1, 0, 10}, {2, 10, 20}, {5, 30, 40}}},
		"a hold that begins in another":       {holds: []span{{1, 0, 10}, {2, 9, 20}}, overlaps: 1},
		"a hold within another":               {holds: []span{{1, 0, 90}, {2, 10, 20}, {3, 30, 40}}, overlaps: 2},
		"a third that overlaps the first":     {holds: []span{{1, 0, 90}, {2, 10, 20}, {3, 80, 95}}, overlaps: 2},
		"an overlap whatever the order":       {holds: []span{{2, 9, 20}, {1, 0, 10}}, overlaps: 1},
		"a hold that never ends":              {holds: []span{{1, 0, 0}, {2, 10, 20}, {3, 30, 40}}, overlaps: 2},
		"holds that begin at once":            {holds: []span{{1, 5, 10}, {2, 5, 10}}, overlaps: 1},
		"a token below the one before":        {holds: []span{{2, 0, 10}, {1, 10, 20}}, regressions: 1},
		"a token twice":                       {holds: []span{{2, 0, 10}, {2, 10, 20}}, regressions: 1},
		"every token below the greatest":      {holds: []span{{9, 0, 10}, {1, 10, 20}, {2, 20, 30}}, regressions: 2},
		"both at a time":                      {holds: []span{{9, 0, 10}, {1, 5, 20}}, overlaps: 1, regressions: 1},
		"nothing in tokens that leave a hole": {holds: []span{{-4, 0, 10}, {9, 10, 20}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := record(test.holds...).summary()
			require.Equal(t, len(test.holds), s.acquisitions)
			require.Equal(t, test.overlaps, s.overlaps, "overlaps")
			require.Equal(t, test.regressions, s.tokenRegressions, "token regressions")
			require.Equal(t, test.overlaps+test.regressions == 0, s.ok())
		})
	}
}

func TestHoldEndsAtTheEarliestTime(t *testing.T) {
	var c checker
	start := time.Now()
	h := c.begin(1, nil, start, start)
	h.end(start.Add(30 * time.Millisecond)) // Release was called
	h.end(start.Add(20 * time.Millisecond)) // the lease had ended before
	h.end(start.Add(40 * time.Millisecond))
	c.begin(2, nil, start, start.Add(20*time.Millisecond))
	require.Zero(t, c.summary().overlaps)
	c.begin(3, nil, start, start.Add(19*time.Millisecond))
	require.Equal(t, 2, c.summary().overlaps, "c overlaps a, and b overlaps c")
}

// A lease that ends before the next one is granted ends its hold, whoever looks when.
func TestGrantedFindsTheLeasesThatHaveEnded(t *testing.T) {
	var c checker
	valid, ended := make(chan struct{}), make(chan struct{})
	asked := time.Now()
	first := c.granted(1, ended, asked)
	close(ended)
	second := c.granted(2, valid, asked)
	require.False(t, first.until.IsZero())
	require.False(t, first.until.After(second.from))
	require.Zero(t, c.summary().overlaps)

	third := c.granted(3, ended, asked)
	require.Equal(t, 1, c.summary().overlaps, "the second one has not ended")
	close(valid)
	fourth := c.granted(4, nil, asked)
	require.False(t, second.until.Before(third.from), "what ends later does not end in the past")
	require.Equal(t, 1, c.summary().overlaps, "the second and the third have")
	require.Equal(t, []*hold{fourth}, c.open)
}

func TestSummaryLine(t *testing.T) {
	var c checker
	start := time.Now()
	for i := range 100 {
		h := c.begin(int64(i), nil, start, start.Add(time.Duration(100-i)*time.Millisecond+1))
		h.end(h.from)
	}
	c.lost()
	s := c.summary()
	require.Equal(t, 99, s.tokenRegressions, "the tokens fall while time rises")
	s.tokenRegressions = 7
	require.Equal(t, "acquisitions=100 overlaps=0 token_regressions=7 lost_while_held=1 acquire_p50=50ms acquire_p99=99ms",
		s.String())
}
