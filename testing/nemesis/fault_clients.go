package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/gocurator/curator/testing/zkproxy"
)

// orderAll gives an order to several clients. One that was killed meanwhile does not
// count.
func orderAll(all []*process, o order) (err error) {
	for _, p := range all {
		_, failure := p.order(o)
		err = errors.Join(err, failure)
	}
	return err
}

// resetConnections resets the connections of all clients.
func resetConnections(_ context.Context, c *cluster, _ *rand.Rand, record *faultRecord) (undo, error) {
	record.Detail = "all"
	return nil, c.each(func(_ int, p *process) error {
		_, err := p.order(order{Do: doReset})
		return err
	})
}

// loseFrames loses one of the next requests of each client, or its reply.
func loseFrames(_ context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	o := order{
		Do: doFate, K: 1 + random.IntN(3), Which: oneOf(random, requestCut, replyCut, requestDropped, replyDropped),
		Op: oneOf(random, zkproxy.OpCreate2, zkproxy.OpCreate2, zkproxy.OpCreate2,
			zkproxy.OpDelete, zkproxy.OpGetChildren2, zkproxy.OpGetData, zkproxy.OpMulti),
	}
	record.Detail = fmt.Sprintf("%s %d of each client: %s", operationName(o.Op), o.K, o.Which)
	all := func(o order) func(int, *process) error {
		return func(_ int, p *process) error {
			_, err := p.order(o)
			return err
		}
	}
	return func(context.Context) error { return c.each(all(order{Do: doHeal})) }, c.each(all(o))
}

// haltClient kills a client process, which is started anew later, or stops it for
// a while.
func haltClient(_ context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	i := random.IntN(len(c.clients))
	p := c.client(i)
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
	p := c.client(random.IntN(len(c.clients)))
	record.Detail = "that of " + p.config.Name
	answer, err := p.order(order{Do: doExpire})
	if answer.Session != 0 {
		record.Sessions = []int64{answer.Session}
	}
	return nil, err
}
