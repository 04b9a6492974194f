// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gocurator/curator/testing/zkproxy"
)

// healClients ends what clients do to frames and connections.
func healClients(all []*process) undo {
	return func(context.Context) error {
		_, err := orderAll(all, order{Do: doHeal})
		return err
	}
}

// resetConnections resets the connections of all clients.
func resetConnections(_ context.Context, c *cluster, _ *rand.Rand, record *faultRecord) (undo, error) {
	record.Detail = "all"
	_, err := orderAll(c.clients, order{Do: doReset})
	return nil, err
}

// loseFrames loses one of the next requests of each client, or its reply. Most often it hits a creation: the
// client then does not know whether it has a place in the queue.
func loseFrames(_ context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	o := order{
		Do: doFate, K: 1 + random.IntN(3), Which: oneOf(random, requestCut, requestDropped, replyCut, replyCut, replyDropped, replyDropped),
		Op: oneOf(random, zkproxy.OpCreate2, zkproxy.OpCreate2, zkproxy.OpCreate2,
			zkproxy.OpDelete, zkproxy.OpGetChildren2, zkproxy.OpGetData, zkproxy.OpMulti),
	}
	record.Detail = fmt.Sprintf("%s %d of each client: %s", operationName(o.Op), o.K, o.Which)
	_, err := orderAll(c.clients, o)
	return healClients(c.clients), err
}

// haltClient kills a client process, and starts another one later, or stops it for
// a while.
func haltClient(_ context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	i := random.IntN(len(c.clients))
	p := c.clients[i]
	record.Clients = []string{p.config.Name}
	if random.IntN(2) == 0 {
		record.Killed = true
		record.Detail = p.config.Name + " killed"
		return func(context.Context) error { return c.restartClient(i) }, p.kill()
	}
	record.Detail = p.config.Name + " stopped"
	return func(context.Context) error { return goOn(p.cmd.Process) }, stop(p.cmd.Process)
}

// closeSession has the session of a client closed by another connection.
func closeSession(_ context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	p := oneOf(random, c.clients...)
	record.Detail = "the session of " + p.config.Name
	answer, err := p.order(order{Do: doExpire})
	if answer.Session != 0 {
		record.Sessions = []int64{answer.Session}
	}
	return nil, err
}

// hurryDelay is the latency each way while callers are in a hurry.
const hurryDelay = 5 * time.Millisecond

// hurry has the callers of all clients give up after a few milliseconds, and try again at once, on a network where
// a round trip takes as long.
func hurry(_ context.Context, c *cluster, _ *rand.Rand, record *faultRecord) (undo, error) {
	record.Detail = fmt.Sprintf("all clients, %v each way, acquisitions of at most %v", hurryDelay, haste)
	set := func(d time.Duration) {
		for _, p := range c.clients {
			for _, s := range c.ensemble.Servers() {
				c.network.Delay(p.host, s.Host(), d)
			}
		}
	}
	set(hurryDelay)
	_, err := orderAll(c.clients, order{Do: doHurry})
	return func(ctx context.Context) error {
		set(0)
		return healClients(c.clients)(ctx)
	}, err
}
