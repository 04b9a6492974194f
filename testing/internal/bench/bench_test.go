// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// everyPeer has TestBench run the peers of other languages and systems too, for minutes.
var everyPeer = flag.Bool("every-peer", false, "run every peer, and not only this library and go-zookeeper")

// TestBench runs every scenario for a moment, with -every-peer with every peer that is
// installed. It names those that are not.
func TestBench(t *testing.T) {
	var names []string
	for _, p := range peers {
		if !*everyPeer && !strings.HasPrefix(p.name, "self") && p.name != "zklock" && p.name != "raw" {
			continue
		}
		if err := checkInstalled([]peer{p}); err != nil {
			require.ErrorIs(t, err, errMissing)
			require.Contains(t, err.Error(), "(Debian)")
			t.Log(err)
			continue
		}
		names = append(names, p.name)
	}
	shorten(t)
	var figures bytes.Buffer
	err := bench(t.Context(), options{
		peers: strings.Join(names, ","), rounds: 1, duration: 100 * time.Millisecond, servers: 1, json: true, requests: true,
	}, &figures, testWriter{t})
	require.NoError(t, err)
	var all []*measured
	require.NoError(t, json.Unmarshal(figures.Bytes(), &all))
	for _, s := range scenarios {
		var of []string
		for _, m := range all {
			if m.Scenario == s.kind && m.Clients == s.load.Clients && m.Goroutines == s.load.Goroutines {
				require.Positive(t, s.metrics[0].of(&m.Rounds[0]), m.Peer)
				of = append(of, m.Peer)
			}
		}
		require.NotEmpty(t, of, s)
		require.Contains(t, of[0], "self", s)
	}
	require.Equal(t, "self", all[0].Peer)
	byType := all[0].byType()
	require.InDelta(t, 1, byType["delete"].PerTurn, 0.1, "%v", byType)
	require.Positive(t, byType["delete"].Mean)
}

// TestBenchRequestsAreCountedByType sends frames in pieces, several at once too, and gets their replies in the same way.
func TestBenchRequestsAreCountedByType(t *testing.T) {
	frame := func(first, second int32, more int) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(8+more))
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, uint32(first)), uint32(second))
		return append(b, make([]byte, more)...)
	}
	sent := slices.Concat(
		frame(0, 0, 30), // the handshake
		frame(-2, int32(zkserver.OpPing), 0),
		frame(1, int32(zkserver.OpDelete), 20),
		frame(-7, int32(zkserver.OpDelete), 0),
		frame(2, int32(zkserver.OpGetData), 7))
	received := slices.Concat(frame(0, 0, 30), frame(1, 0, 8), frame(-1, 0, 50), frame(-2, 0, 8), frame(-7, 0, 8))
	for size := range len(sent) {
		size++
		counted := newTap(true)
		client, server := net.Pipe()
		conn := &tappedConn{Conn: client, tap: counted, underWay: make(map[int32]sentRequest)}
		go func() {
			_, _ = io.CopyN(io.Discard, server, int64(len(sent)))
			for part := range slices.Chunk(received, size) {
				_, _ = server.Write(part)
			}
			_ = server.Close()
		}()
		for part := range slices.Chunk(sent, size) {
			must.Get(conn.Write(part))(t)
		}
		must.Get(io.Copy(io.Discard, conn))(t)

		require.Len(t, conn.underWay, 1, "the read has no reply")
		costs := counted.take(4)
		require.Len(t, costs, 1)
		require.InDelta(t, 0.5, costs["delete"].PerTurn, 0)
		require.Empty(t, counted.take(4))
		counted.add(zkserver.OpDelete, time.Second)
		require.Empty(t, counted.take(0))
		require.Empty(t, counted.take(4), "they are forgotten")
	}
	require.Empty(t, newTap(false).take(1))
}

// shorten leaves out most of what a thousand waiters and a herd of hundreds take.
func shorten(t *testing.T) {
	whole := scenarios
	t.Cleanup(func() { scenarios = whole })
	scenarios = nil
	for _, s := range whole {
		switch s.kind {
		case queue, longQueue:
			s.load.Goroutines /= 50
		case electorate:
			s.load.Goroutines = 10
		}
		if s.load.Paths > 0 {
			s.load.Paths = min(s.load.Paths, 200)
		}
		if s.load.Goroutines > 100 {
			continue
		}
		scenarios = append(scenarios, s)
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// TestBenchOverlapIsSeen drives a lock that locks nothing.
func TestBenchOverlapIsSeen(t *testing.T) {
	open := func(context.Context, bool) (func(context.Context) error, error) {
		return func(context.Context) error { return nil }, nil
	}
	m := &measurement{load: load{Clients: 1, Goroutines: 2}}
	m.begin()
	m.enter(false) // somebody is in, and stays
	require.NoError(t, m.turn(t.Context(), open, false))
	require.Equal(t, 1, m.result().Overlaps)
	require.NoError(t, m.turn(t.Context(), open, true))
	require.Equal(t, 2, m.result().Overlaps, "a reader beside a writer")

	failing := errors.New("failing")
	_, err := drive(t.Context(), load{Duration: time.Millisecond}, []locker{
		func(context.Context, bool) (func(context.Context) error, error) { return nil, failing },
	})
	require.ErrorIs(t, err, failing)
}

// A peer on a busy machine may take longer for one turn than turns are counted for.
func TestBenchDurationWithoutATurnIsDoubled(t *testing.T) {
	var durations []time.Duration
	turnsAfter := func(d time.Duration) peer {
		return peer{name: "slow", run: func(_ context.Context, _ servers, l load, _ string) (result, error) {
			durations = append(durations, l.Duration)
			if l.Duration < d {
				return result{}, nil
			}
			return result{Turns: 3}, nil
		}}
	}
	at, s := servers{tap: newTap(false)}, scenario{kind: uncontended, load: load{Duration: time.Second}}

	r, err := runOne(t.Context(), at, turnsAfter(3*time.Second), s, "/path")

	require.NoError(t, err)
	require.Equal(t, 3, r.Turns)
	require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, durations)

	_, err = runOne(t.Context(), at, turnsAfter(time.Minute), s, "/path")
	require.ErrorContains(t, err, "peer=slow: no turn was counted in 16s")
}

// TestBenchIntervalOfAMedian compares the ranks with published tables of the sign test.
func TestBenchIntervalOfAMedian(t *testing.T) {
	for n, rank := range map[int]int{5: 0, 6: 1, 8: 1, 9: 2, 12: 3, 20: 6, 30: 10, 60: 22} {
		var values []float64
		for v := n; v > 0; v-- {
			values = append(values, float64(v))
		}
		low, high, ok := interval(values)
		require.Equal(t, rank > 0, ok, "%d values", n)
		if ok {
			require.InDelta(t, rank, low, 0, "%d values", n)
			require.InDelta(t, n+1-rank, high, 0, "%d values", n)
		}
	}
}

// TestBenchRatioIsThatOfTheRounds divides within each round, and gives no ratio to a peer that measured zero.
func TestBenchRatioIsThatOfTheRounds(t *testing.T) {
	measuredAs := func(peer string, rates ...int) *measured {
		m := &measured{Peer: peer, scenario: scenario{kind: uncontended}}
		for _, rate := range rates {
			m.Rounds = append(m.Rounds, result{Turns: rate, Seconds: 1})
		}
		return m
	}
	peers := []*measured{
		measuredAs("self", 100, 400, 900, 1600, 2500, 3600),
		measuredAs("other", 100, 200, 300, 400, 500, 600),
		measuredAs("silent", 100, 200, 300, 0, 500, 600),
	}
	require.Equal(t, peers[0].scenario.String()+" metric=turns_per_s self=1250 other=350 silent=250 ratio_to_other=3.50 (1.00..6.00)",
		line(turnsPerSecond, peers))
}

// TestBenchEachPeerBeginsInItsTurn, and each runs once in a round.
func TestBenchEachPeerBeginsInItsTurn(t *testing.T) {
	var ran []string
	var peers []peer
	for _, name := range []string{"a", "b", "c"} {
		peers = append(peers, peer{name: name, kinds: []string{uncontended}, run: func(context.Context, servers, load, string) (result, error) {
			ran = append(ran, name)
			return result{Turns: 1, Seconds: 1}, nil
		}})
	}
	s := scenario{kind: uncontended}
	at := servers{tap: newTap(false)}

	all, err := runAll(t.Context(), at, peers, []scenario{s}, 4, testWriter{t})

	require.NoError(t, err)
	require.Equal(t, "abcbcacababc", strings.Join(ran, ""))
	for _, m := range all {
		require.Len(t, m.Rounds, 4)
	}
}

func TestBenchBadFlags(t *testing.T) {
	for _, o := range []options{
		{peers: "nobody", rounds: 1, duration: time.Second, servers: 1},
		{scenarios: "nothing", rounds: 1, duration: time.Second, servers: 1},
		{rounds: 0, duration: time.Second, servers: 1},
		{rounds: 1, duration: time.Millisecond, servers: 1},
	} {
		require.ErrorContains(t, bench(t.Context(), o, &bytes.Buffer{}, &bytes.Buffer{}), "expected")
	}
}

func TestBenchTablesOfADocument(t *testing.T) {
	under := must.Get(selectScenarios("uncontended,contended,get", time.Second))(t)
	var all []*measured
	for i, s := range under {
		for j, peer := range []string{"self", "curator", "raw-verbs"} {
			if s.kind == verbGet == (peer == "raw-verbs") {
				all = append(all, &measured{
					Scenario: s.kind, Peer: peer, scenario: s, Servers: 1,
					Rounds: []result{{Turns: 1000 * (i + 1) * (j + 1), Seconds: 1, TurnP50: float64(1234 * (j + 1))}},
				})
			}
		}
	}
	all[0].Rounds[0].ByType = map[string]requestCost{"create2": {1, 1500}, "delete": {0.5, 20}, "exists": {0.001, 1}}
	all[0].Rounds[0].CPU = 77
	rows := must.Get(withTables("<!-- bench: requests -->\n<!-- bench end -->", all))(t)
	require.Contains(t, rows, "| a turn of one client alone | 1,234 µs | 1.00 create2 of 1,500 µs, 0.50 delete of 20 µs | 77 µs |\n")
	require.NotContains(t, rows, "8 clients", "its requests were not counted")
	_, err := withTables("<!-- bench: locks -->\n<!-- bench end -->", all[:1])
	require.ErrorContains(t, err, "no table was measured", "they were")
	all[0].Rounds[0].ByType = nil
	got := must.Get(withTables("a\n<!-- bench: locks -->\nold\n<!-- bench end -->\nb\n<!-- bench: verbs -->\n<!-- bench end -->\nc\n", all))(t)
	require.Equal(t, `a
<!-- bench: locks -->

| | here | Curator 5.4 |
|---|---|---|
| a turn of one client alone | 1,234 µs | 2,468 µs |
| turns of 8 clients | 2,000/s | 4,000/s |

<!-- bench end -->
b
<!-- bench: verbs -->

| | go-zookeeper |
|---|---|
| get, 1 goroutine | 9,000/s |
| get, 64 goroutines | 12,000/s |
| get, 1,000 goroutines | 15,000/s |

<!-- bench end -->
c
`, got)
	for _, measured := range [][]*measured{all, all[:4]} { // the second is for the first table alone
		require.Equal(t, got, must.Get(withTables(got, measured))(t))
	}
	_, err = withTables(got, all[:2])
	require.ErrorContains(t, err, "no table was measured", "it would replace two rows by one")

	for _, m := range all {
		m.Servers, m.Fsync = 3, true
	}
	_, err = withTables(got, all)
	require.ErrorContains(t, err, "no table was measured", "both are of one server")
	three := must.Get(withTables("<!-- bench: three servers -->\n<!-- bench end -->\n", all))(t)
	require.Contains(t, three, "| turns of 8 clients | 2,000/s | 4,000/s |")

	for name, bad := range map[string]string{
		"no table":       "text\n",
		"unknown":        "<!-- bench: nothing -->\n<!-- bench end -->\n",
		"without end":    "<!-- bench: locks -->\n",
		"not measured":   "<!-- bench: locks -->\n<!-- bench end -->\n",
		"without a name": "<!-- bench: ",
	} {
		_, err := withTables(bad, all[len(all):])
		require.Error(t, err, name)
	}

	waiting := must.Get(selectScenarios(longQueue, time.Second))(t)
	long := must.Get(withTables("<!-- bench: long queues -->\n<!-- bench end -->\n", []*measured{{
		Scenario: longQueue, Peer: "self", scenario: waiting[0], Servers: 1,
		Rounds: []result{{Turns: 5000, Seconds: 2, Requests: 4.56, Bytes: 1234.4, Heap: 4321}},
	}}))(t)
	require.Contains(t, long, `| turns of 5,000 waiters of 10 clients | 2,500/s |
| requests for a turn | 4.56 |
| bytes for a turn, both ways | 1,234 |
| heap for a waiter, in bytes | 4,321 |
`)
}
