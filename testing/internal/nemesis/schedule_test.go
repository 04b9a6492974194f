// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

// Which policies promise nothing when two faults come together.
func TestScheduleCombine(t *testing.T) {
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

// Every fault that was chosen comes about as often as any other, over all rounds of a campaign. Frames
// cannot be hurt in rounds with TLS, so that they are twice as often in the others.
func TestScheduleIsFair(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]map[string]int{
		"N1,N8":     {"N1": 60, "N8": 60},
		"N1,N2,N8":  {"N1": 60, "N2": 60, "N8": 60},
		"N8":        {"N8": 60}, // no round has TLS then
		"N1,N4,N15": {"N1": 120, "N4": 120},
	} {
		chosen, pair, err := choose(list)
		require.NoError(t, err)
		for seed := range uint64(2) {
			got := make(map[string]int)
			for _, setup := range (&campaign{duration: longCampaign, seed: seed}).setups(nil, chosen) {
				s := schedule{random: rand.New(rand.NewPCG(setup.seed, 2)), chosen: chosen, pair: pair}
				for range 10 {
					for more := true; more; more = len(s.left) > 0 {
						for _, f := range s.next(&cluster{setup: setup}) {
							require.False(t, f.frames && setup.tls, "a proxy sees no frames")
							got[f.id]++
						}
					}
				}
			}
			require.Equal(t, want, got, list)
		}
	}
}

// Half of the rounds of a long campaign have TLS, half have fsync, and some have both, whatever the
// seed. A short campaign has frames to hurt.
func TestScheduleSetups(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		names := make(map[string]int)
		for _, s := range (&campaign{duration: longCampaign, seed: seed}).setups(nil, faults) {
			names[s.String()]++
		}
		require.Len(t, names, 4, "all combinations: %v", names)
		require.Equal(t, 3, names["tls, fsync, guarded"]+names["tls, no fsync, guarded"])
		require.Equal(t, 3, names["plain, fsync"]+names["tls, fsync, guarded"])

		short := (&campaign{duration: shortCampaign, seed: seed}).setups(nil, faults)
		require.Len(t, short, 1)
		require.False(t, short[0].fsync)
		require.Equal(t, 1, short[0].frames)
	}
	soak := (&campaign{duration: longCampaign}).setups(nil, nil)
	require.Len(t, soak, 1)
	require.Zero(t, soak[0].frames, "no proxies")
}

// What went wrong with a fault is told whole.
func TestFaultFails(t *testing.T) {
	t.Parallel()
	var r faultRecord
	r.fail(nil)
	require.Empty(t, r.Error)
	r.fail(errors.New("it cannot be done"))
	require.Equal(t, "it cannot be done", r.Error)
	r.fail(nil)
	r.fail(errors.New("nor undone"))
	require.Equal(t, "it cannot be done; nor undone", r.Error)
}

// What cannot be done here is left out.
func TestSchedulePossible(t *testing.T) {
	t.Parallel()
	cannot := fault{id: "N1", cannot: func() error { return errors.New("no such thing here") }}
	require.Empty(t, possible([]fault{cannot}))
	s := schedule{random: rand.New(rand.NewPCG(1, 2)), chosen: []fault{cannot, {id: "N2"}}}
	for range 10 {
		require.Equal(t, "N2", s.next(&cluster{})[0].id)
	}
	require.Len(t, kindsOf(s.chosen, false), 2, "both are in the record")
}

// A fault of servers that were not ready for it says so, once.
func TestScheduleUnready(t *testing.T) {
	t.Parallel()
	r := faultRecord{Detail: "server 2"}
	r.unready(nil)
	require.Equal(t, "server 2", r.Detail)
	r.unready(errors.New("server 1 starts"))
	r.unready(errors.New("server 3 starts"))
	require.Equal(t, "server 2, not all servers in sync before", r.Detail)
}

// A fault that hurts everything comes by itself, and never beside another one.
func TestScheduleFaultThatComesAlone(t *testing.T) {
	t.Parallel()
	isRestore := func(f fault) bool { return f.id == "N18" }
	for list, want := range map[string]bool{"all": true, "N15": true, "N1,N18": true, "N18,N15": true, "N1": false} {
		chosen, pair, err := choose(list)
		require.NoError(t, err)
		require.Equal(t, want, slices.ContainsFunc(chosen, isRestore), list)
		s := schedule{random: rand.New(rand.NewPCG(1, 2)), chosen: chosen, pair: pair}
		came := false
		for range 1000 {
			next := s.next(&cluster{setup: setup{frames: 1}})
			came = came || isRestore(next[0])
			require.False(t, len(next) > 1 && slices.ContainsFunc(next, isRestore), list)
		}
		require.Equal(t, want, came, list)
	}
}
