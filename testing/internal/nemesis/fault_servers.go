// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gocurator/curator/testing/ensemble"
)

// electionTime is how long a fault waits for a leader that it wants to hit. If there is none by
// then, it hits any server.
const electionTime = 3 * time.Second

// leaderFirst returns the servers, the leader first if there is one.
func leaderFirst(ctx context.Context, c *cluster) (all []*ensemble.Server, led bool) {
	ctx, cancel := context.WithTimeout(ctx, electionTime)
	defer cancel()
	all = append(all, c.ensemble.Servers()...)
	leader, err := c.ensemble.Leader(ctx)
	if err != nil {
		return all, false
	}
	for i, s := range all {
		if s == leader {
			all[0], all[i] = all[i], all[0]
		}
	}
	return all, true
}

// victim chooses the leader or another server, and says which.
func victim(ctx context.Context, c *cluster, random *rand.Rand, record *faultRecord) *ensemble.Server {
	all, led := leaderFirst(ctx, c)
	i := random.IntN(len(all))
	role := "a server without a quorum"
	switch {
	case led && i == 0:
		role = "the leader"
	case led:
		role = "a follower"
	}
	record.Detail, record.Servers = fmt.Sprintf("%v, %s", all[i], role), hostsOf(all[i])
	return all[i]
}

// hostsOf returns the names of the servers' hosts in records.
func hostsOf(all ...*ensemble.Server) (hosts []string) {
	for _, s := range all {
		hosts = append(hosts, hostOf(s.Addr()))
	}
	return hosts
}

// restart brings servers back, all at once, and waits until they serve.
func restart(c *cluster, victims ...*ensemble.Server) undo {
	return func(ctx context.Context) error {
		errs := make(chan error, len(victims))
		for _, s := range victims {
			go func() { errs <- s.Restart(ctx) }()
		}
		var err error
		for range victims {
			err = errors.Join(err, <-errs)
		}
		if err != nil { // one that came up without the others
			return c.ensemble.Restart(ctx)
		}
		return nil
	}
}

// killServers kills the leader, a follower, or all.
func killServers(ctx context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	victims := []*ensemble.Server{victim(ctx, c, random, record)}
	if random.IntN(4) == 0 {
		// The next leader gives each session its whole time.
		victims, record.Detail, record.Servers = c.ensemble.Servers(), "all", nil
	}
	for _, s := range victims {
		if err := s.Kill(); err != nil {
			return restart(c, victims...), err
		}
	}
	return restart(c, victims...), nil
}

// pauseServer stops one with SIGSTOP.
func pauseServer(ctx context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	s := victim(ctx, c, random, record)
	return func(context.Context) error { return s.Resume() }, s.Pause()
}

// restartServers restarts all, one after the other or after an outage of a while.
func restartServers(ctx context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	if random.IntN(2) == 0 {
		record.Detail = "all down"
		for _, s := range c.ensemble.Servers() {
			if err := s.Kill(); err != nil {
				return c.ensemble.Restart, err
			}
		}
		return c.ensemble.Restart, nil
	}
	record.Detail, record.Servers = "one by one", hostsOf(c.ensemble.Servers()...)
	for _, s := range c.ensemble.Servers() {
		record.unready(c.awaitSync(ctx))
		if err := s.Restart(ctx); err != nil {
			return c.ensemble.Restart, err
		}
	}
	return nil, nil
}

// exhaustDisk makes all writes of a server fail, which it does not survive.
func exhaustDisk(ctx context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	s := victim(ctx, c, random, record)
	return restart(c, s), fillDisk(s.PID())
}
