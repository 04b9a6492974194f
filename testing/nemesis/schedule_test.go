package main

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

// Which policies promise nothing when two faults come together.
func TestCombine(t *testing.T) {
	t.Parallel()
	session := []framework.ErrorPolicy{framework.SessionErrorPolicy}
	unsafe := []framework.ErrorPolicy{framework.SessionErrorPolicy, framework.StandardErrorPolicy}
	for with, want := range map[string][]framework.ErrorPolicy{
		"N1": session, "N7": session, "N14": session, // the server's end of the connection is heard of
		"N2": unsafe, "N6": unsafe, "N9": unsafe, "N10": unsafe,
	} {
		both, _, err := choose("N4," + with)
		require.NoError(t, err)
		records := []faultRecord{{Fault: "N4", Voids: session}, {Fault: with}}
		combine(both, records)
		require.Equal(t, "N15 N4", records[0].Fault)
		require.ElementsMatch(t, want, records[0].Voids, with)
	}
	records := make([]faultRecord, 2)
	both, _, err := choose("N2,N6")
	require.NoError(t, err)
	combine(both, records)
	require.Empty(t, records[0].Voids, "no server was cut off")
}

// Every fault that was chosen comes about as often as any other, in rounds of every kind.
func TestScheduleIsFair(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]map[string]int{
		"N1,N8":     {"N1": 10, "N8": 10},
		"N8":        {"N8": 20}, // not without a proxy: no round is with TLS then
		"N1,N4,N15": {"N1": 20, "N4": 20},
	} {
		chosen, pair, err := choose(list)
		require.NoError(t, err)
		for n := range 4 {
			c := &cluster{setup: (&campaign{clients: 2}).setup(n, nil, chosen)}
			s := schedule{random: rand.New(rand.NewPCG(uint64(n), 2)), chosen: chosen, pair: pair}
			got := make(map[string]int)
			for range 20 * len(kindsOf(chosen, pair)) / len(chosen) {
				for _, f := range s.next(c) {
					got[f.id]++
				}
			}
			if c.setup.tls && list == "N1,N8" {
				require.Equal(t, map[string]int{"N1": 20}, got)
				continue
			}
			require.Equal(t, want, got, "%s in round %d", list, n)
		}
	}
}
