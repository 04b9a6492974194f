// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// measured is what came of one peer under one scenario, round by round.
type measured struct {
	Scenario   string   `json:"scenario"`
	Clients    int      `json:"clients"`
	Goroutines int      `json:"goroutines"`
	Servers    int      `json:"servers"`
	Fsync      bool     `json:"fsync"`
	Peer       string   `json:"peer"`
	Rounds     []result `json:"rounds"`

	scenario scenario
}

// errOverlap is the error of a run in which our own lock let in too many.
var errOverlap = errors.New("mutual exclusion was violated")

// runLimit bounds one run of one peer.
const runLimit = 5 * time.Minute

// runAll runs the peers of each scenario in turns, as many rounds as asked for, so that
// what changes on the machine meanwhile hits all of them alike. Each round
// begins with the next peer, so no peer always runs after the same other peer.
func runAll(
	ctx context.Context, at servers, chosen []peer, under []scenario, rounds int, progress io.Writer,
) ([]*measured, error) {
	var all []*measured
	number := 0
	if err := warmUp(ctx, at, under[0], chosen); err != nil {
		return nil, err
	}
	for _, s := range under {
		var of []*measured
		peers := s.peersOf(chosen)
		for _, p := range peers {
			of = append(of, &measured{
				Scenario: s.kind, Clients: s.load.Clients, Goroutines: s.load.Goroutines, Servers: at.size, Fsync: at.fsync,
				Peer: p.name, scenario: s,
			})
		}
		for round := range rounds {
			for turn := range peers {
				i := (round + turn) % len(peers)
				p := peers[i]
				number++
				r, err := runOne(ctx, at, p, s, fmt.Sprintf("/bench-%d", number))
				if err != nil {
					return all, err
				}
				of[i].Rounds = append(of[i].Rounds, r)
				sayf(progress, "# %v round=%d peer=%s turns=%d turns_per_s=%.0f turn_p50_us=%.0f overlaps=%d\n",
					s, round+1, p.name, r.Turns, r.turnsPerSecond(), r.TurnP50, r.Overlaps)
				if r.Overlaps > 0 && strings.HasPrefix(p.name, "self") {
					return all, fmt.Errorf("%v peer=%s: %w %d times", s, p.name, errOverlap, r.Overlaps)
				}
			}
		}
		all = append(all, of...)
	}
	return all, nil
}

// sayf tells how far it is; that it cannot be told is no reason to stop.
func sayf(progress io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(progress, format, args...)
}

// warmUp has the peers run for ten times the duration, and counts nothing: for so long a server that
// has just started is slow, to half of what it reaches later.
func warmUp(ctx context.Context, at servers, s scenario, chosen []peer) error {
	peers := s.peersOf(chosen)
	begun, number := time.Now(), 0
	for len(peers) > 0 && time.Since(begun) < 10*s.load.Duration {
		for _, p := range peers {
			number++
			if _, err := runOne(ctx, at, p, s, fmt.Sprintf("/warm-up-%d", number)); err != nil {
				return err
			}
		}
	}
	return nil
}

// runOne has a peer take its turns. A duration in which it ends none is too short: it runs again, for twice
// as long, sixteen times at most.
func runOne(ctx context.Context, at servers, p peer, s scenario, path string) (r result, err error) {
	l := s.load
	for ; l.Duration <= 16*s.load.Duration; l.Duration *= 2 {
		r, err = runFor(ctx, at, p, l, fmt.Sprintf("%s-%d", path, l.Duration.Milliseconds()))
		if err != nil {
			return result{}, fmt.Errorf("%v peer=%s: %w", s, p.name, err)
		}
		if r.Turns > 0 {
			return r, nil
		}
	}
	return result{}, fmt.Errorf("%v peer=%s: no turn was counted in %v", s, p.name, l.Duration/2)
}

func runFor(ctx context.Context, at servers, p peer, l load, path string) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	before, err := at.traffic(ctx)
	if err != nil {
		return result{}, err
	}
	r, err := p.run(ctx, at, l, path)
	if err != nil {
		return result{}, err
	}
	after, err := at.traffic(ctx)
	if err != nil {
		return result{}, err
	}
	if p.store == zookeeper && r.Turns > 0 {
		r.perTurn(before, after)
	}
	r.ByType = at.tap.take(r.All)
	return r, nil
}
