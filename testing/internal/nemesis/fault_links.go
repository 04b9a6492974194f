// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/ensemble"
)

// others are all servers but one.
func others(c *cluster, one *ensemble.Server) []*ensemble.Server {
	var all []*ensemble.Server
	for _, s := range c.ensemble.Servers() {
		if s != one {
			all = append(all, s)
		}
	}
	return all
}

// heal mends links.
func heal(c *cluster, from *ensemble.Host, to ...*ensemble.Host) undo {
	return func(context.Context) error {
		for _, h := range to {
			c.network.Heal(from, h)
		}
		return nil
	}
}

// unplugServer cuts a server off from the other servers and from all clients.
func unplugServer(ctx context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	s := victim(ctx, c, random, record)
	var all []*ensemble.Host
	for _, other := range others(c, s) {
		all = append(all, other.Host())
	}
	for _, p := range c.clients {
		all = append(all, p.host)
	}
	for _, h := range all {
		c.network.Cut(s.Host(), h)
	}
	return heal(c, s.Host(), all...), nil
}

// cutOffServer cuts a server off from the others, while all clients reach it. Those that
// know no other server are on its side. If it is the leader, the others are
// sometimes killed and restarted, so that they elect another at once, while it
// has not noticed yet.
func cutOffServer(ctx context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	record.Voids = []framework.ErrorPolicy{framework.SessionErrorPolicy}
	s := victim(ctx, c, random, record)
	var hosts []*ensemble.Host
	for _, other := range others(c, s) {
		c.network.Cut(s.Host(), other.Host())
		hosts = append(hosts, other.Host())
	}
	mend := heal(c, s.Host(), hosts...)
	if random.IntN(3) != 0 {
		return mend, nil
	}
	record.Detail += ", and the others restarted"
	for _, other := range others(c, s) {
		if err := other.Kill(); err != nil {
			return mend, err
		}
	}
	return mend, restart(c, others(c, s)...)(ctx)
}

// cutLink cuts the link between two servers, both ways or one way.
func cutLink(_ context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	record.Voids = []framework.ErrorPolicy{framework.SessionErrorPolicy}
	order := random.Perm(3)
	a, b := c.ensemble.Server(order[0]), c.ensemble.Server(order[1])
	record.Servers = hostsOf(a, b)
	if random.IntN(2) == 0 {
		record.Detail = fmt.Sprintf("%v and %v", a, b)
		c.network.Cut(a.Host(), b.Host())
	} else {
		record.Detail = fmt.Sprintf("%v to %v, one way", a, b)
		c.network.CutOneWay(a.Host(), b.Host())
	}
	return heal(c, a.Host(), b.Host()), nil
}

// cutOffClient cuts a client off from all servers, both ways or one way.
func cutOffClient(_ context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	p := oneOf(random, c.clients...)
	way := oneOf(random, "both ways", "nothing gets out", "nothing gets in")
	record.Detail = p.config.Name + ", " + way
	var hosts []*ensemble.Host
	for _, s := range c.ensemble.Servers() {
		hosts = append(hosts, s.Host())
		switch way {
		case "both ways":
			c.network.Cut(p.host, s.Host())
		case "nothing gets out":
			c.network.CutOneWay(p.host, s.Host())
		default:
			c.network.CutOneWay(s.Host(), p.host)
		}
	}
	return heal(c, p.host, hosts...), nil
}

// slowDown makes every packet between some clients and the servers late, or limits
// how much gets through.
func slowDown(_ context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	delay := between(50*time.Millisecond, 400*time.Millisecond)(random)
	var slow []*process
	for _, i := range random.Perm(len(c.clients))[:1+random.IntN(len(c.clients))] {
		slow = append(slow, c.clients[i])
	}
	if random.IntN(2) == 0 && c.setup.frames > 0 {
		record.Detail = fmt.Sprintf("%d clients, 10 kB/s, and everything in small pieces", len(slow))
		_, err := orderAll(slow, order{Do: doSlow, Rate: 10_000})
		return healClients(slow), err
	}
	record.Detail = fmt.Sprintf("%d clients, %v each way", len(slow), delay.Round(time.Millisecond))
	set := func(p *process, d time.Duration) {
		for _, s := range c.ensemble.Servers() {
			c.network.Delay(p.host, s.Host(), d)
		}
	}
	for _, p := range slow {
		set(p, delay)
	}
	return func(context.Context) error {
		for _, p := range slow {
			set(p, 0)
		}
		return nil
	}, nil
}
