// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Mode is the role of a serving server, as the four letter word srvr reports it.
type Mode string

// The modes of a server that serves clients.
const (
	ModeStandalone Mode = "standalone" // the only server
	ModeLeader     Mode = "leader"     // of a quorum
	ModeFollower   Mode = "follower"   // of the leader
	ModeObserver   Mode = "observer"   // of the leader, without a vote
)

// pollInterval is the time between two questions to a server: ZooKeeper offers nothing to wait on.
const pollInterval = 20 * time.Millisecond

// Leader returns the leader, or the only server. It waits until exactly one of the servers that run and are not paused
// says that it leads, and a majority of the ensemble serves. So during an election it waits for the outcome. If a
// deposed leader has not noticed its end yet, it waits for that too. It fails when the context ends, at the latest
// after a minute.
//
// A leader that lost its followers a moment ago may still be reported if they do not know it yet either.
func (e *Ensemble) Leader(ctx context.Context) (*Server, error) {
	leader, _, err := e.awaitRoles(ctx, e.quorate)
	return leader, err
}

// Followers returns the servers that follow the leader and vote, in the order of their ids; none for an ensemble of one. It waits until there
// is a leader, as [Ensemble.Leader] does, and every other server that runs and is not paused follows. It fails when the context
// ends, at the latest after a minute.
func (e *Ensemble) Followers(ctx context.Context) ([]*Server, error) {
	_, followers, err := e.awaitRoles(ctx, func(r roles) bool { return e.quorate(r) && r.problem == nil })
	return followers, err
}

// roles is what the servers said about themselves, one after the other.
type roles struct {
	leaders   []*Server
	followers []*Server
	problem   error // why other running servers gave no answer, or no useful one
}

func (e *Ensemble) quorate(r roles) bool {
	return len(r.leaders) == 1 && 2*(1+len(r.followers)) > e.voters()
}

// voters counts the servers that are no observers.
func (e *Ensemble) voters() int {
	return len(slices.DeleteFunc(e.Servers(), func(s *Server) bool { return s.observer }))
}

// awaitRoles asks the servers until enough says so.
func (e *Ensemble) awaitRoles(ctx context.Context, enough func(roles) bool) (leader *Server, followers []*Server, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		r := e.roles(ctx)
		if enough(r) {
			return r.leaders[0], r.followers, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("ensemble: no settled leader: leaders %v, followers %v: %w",
				r.leaders, r.followers, errors.Join(context.Cause(ctx), r.problem))
		case <-time.After(pollInterval):
		}
	}
}

func (e *Ensemble) roles(ctx context.Context) roles {
	var r roles
	for _, s := range e.Servers() {
		if !s.answers() {
			continue
		}
		mode, err := s.probeMode(ctx)
		switch {
		case err != nil:
			r.problem = errors.Join(r.problem, err)
		case mode == ModeLeader, mode == ModeStandalone:
			r.leaders = append(r.leaders, s)
		case mode == ModeFollower:
			r.followers = append(r.followers, s)
		case mode == ModeObserver:
		default:
			r.problem = errors.Join(r.problem, fmt.Errorf("ensemble: %v is in mode %q", s, mode))
		}
	}
	return r
}

// probeMode is Mode without patience: the caller asks again.
func (s *Server) probeMode(ctx context.Context) (Mode, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return s.Mode(ctx)
}
