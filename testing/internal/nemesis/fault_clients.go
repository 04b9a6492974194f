package main

import (
	"context"
	"fmt"
	"math/rand/v2"

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

// loseFrames loses one of the next requests of each client, or its reply: most often that of a creation, of
// which the client then does not know whether it has a place in the queue.
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

// haltClient kills a client process, which is started anew later, or stops it for
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
	record.Detail = "that of " + p.config.Name
	answer, err := p.order(order{Do: doExpire})
	if answer.Session != 0 {
		record.Sessions = []int64{answer.Session}
	}
	return nil, err
}
