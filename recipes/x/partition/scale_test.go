// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// scaleEnv measures another size on a real server: "partitions,members", or on the embedded one with ",embedded" behind.
const scaleEnv = "CURATOR_PARTITION_SCALE"

// TestScaleWhatAJoinAndALeaveCost: a newcomer reads each member's share, a member whose share stays
// makes no request, and the others a few for each partition that moves.
func TestScaleWhatAJoinAndALeaveCost(t *testing.T) {
	partitions, members := 100, 10
	size, isEmbedded := strings.CutSuffix(os.Getenv(scaleEnv), ",embedded")
	if size != "" {
		_, err := fmt.Sscanf(size, "%d,%d", &partitions, &members)
		require.NoError(t, err, scaleEnv)
	}
	var target string
	if size == "" || isEmbedded {
		target = zktest.NewServer(t).Addr()
	} else {
		target = zktest.NewEnsemble(t, 1).ConnectString()
	}
	g := &crowd{t: t, target: target, root: "/scale", partitions: partitions}
	for i := range partitions {
		g.names = append(g.names, fmt.Sprintf("partition-%05d", i))
	}
	heap := heapInUse()
	for range members {
		g.add()
	}
	took := g.await(members)
	t.Logf("%d partitions, %d members: balanced %v after the last start, heap %d KB a member",
		partitions, members, took.Round(time.Millisecond), (heapInUse()-heap)/int64(members)/1024)

	g.reset()
	newcomer := g.add()
	took = g.await(members + 1)
	theirs, most := g.of(newcomer)
	moved := (partitions + members) / (members + 1)
	t.Logf("a join: %v; the newcomer %s; each other at most %s, together %s", took.Round(time.Millisecond), newcomer.cost(), most, theirs)
	require.LessOrEqual(t, newcomer.requests.Load(), int64(40+2*members+12*moved), "requests of the newcomer")
	require.LessOrEqual(t, theirs.requests, int64(10*moved+8*members), "requests of the others")

	g.reset()
	leaver := g.members[0]
	leaver.cancel()
	<-leaver.ended
	g.members = g.members[1:]
	took = g.await(members)
	theirs, most = g.of(nil)
	t.Logf("a leave: %v; each other at most %s, together %s", took.Round(time.Millisecond), most, theirs)
	require.LessOrEqual(t, theirs.requests, int64(40+2*members+12*moved+8*members), "requests of all that stay")
	g.stop()
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// crowd is members of one process, with a client each.
type crowd struct {
	t          *testing.T
	target     string
	root       string
	partitions int
	names      []string
	members    []*counted
}

// counted is a member with what it asks the server.
type counted struct {
	requests, bytes atomic.Int64
	held            atomic.Int64
	cancel          context.CancelFunc
	ended           chan struct{}
}

type cost struct{ requests, bytes int64 }

func (c cost) String() string {
	return fmt.Sprintf("%d requests, %.1f KB", c.requests, float64(c.bytes)/1000)
}

func (c *counted) cost() cost { return cost{c.requests.Load(), c.bytes.Load()} }

func (c *counted) count(f zkproxy.Frame) zkproxy.Verdict {
	if f.Kind == zkproxy.Request {
		c.requests.Add(1)
	}
	c.bytes.Add(int64(4 + len(f.Body)))
	return zkproxy.Pass
}

func (g *crowd) add() *counted {
	c := &counted{ended: make(chan struct{})}
	link := must.Get(zkproxy.Start(g.target))(g.t)
	link.Intercept(c.count)
	client := must.Get(framework.Connect(g.t.Context(), link.Addr()))(g.t)
	member := must.Get(partition.New(client, g.root, partition.Fixed(g.names...)))(g.t)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	g.members = append(g.members, c)
	go func() {
		defer close(c.ended)
		defer link.Close()
		defer client.Close()
		_ = member.Run(ctx, func(ctx context.Context, _ partition.Partition) error { // its context has ended
			c.held.Add(1)
			<-ctx.Done()
			c.held.Add(-1)
			return nil
		})
	}()
	g.t.Cleanup(cancel)
	return c
}

// await waits until the members have all partitions, as many each.
func (g *crowd) await(members int) time.Duration {
	began := time.Now()
	low, high := int64(g.partitions/members), int64((g.partitions+members-1)/members)
	for limit := began.Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
		total, balanced := int64(0), true
		for _, c := range g.members {
			held := c.held.Load()
			total += held
			balanced = balanced && low <= held && held <= high
		}
		if balanced && total == int64(g.partitions) {
			return time.Since(began)
		}
		require.True(g.t, time.Now().Before(limit), "%d partitions are held", total)
	}
}

func (g *crowd) reset() {
	time.Sleep(100 * time.Millisecond) // for what goes on after the last takeover
	for _, c := range g.members {
		c.requests.Store(0)
		c.bytes.Store(0)
	}
}

// of returns the costs of the members but one: of all together, and of the one that has most.
func (g *crowd) of(without *counted) (all, most cost) {
	for _, c := range g.members {
		if c == without {
			continue
		}
		own := c.cost()
		all.requests += own.requests
		all.bytes += own.bytes
		if own.requests > most.requests {
			most = own
		}
	}
	return all, most
}

func (g *crowd) stop() {
	var all sync.WaitGroup
	for _, c := range g.members {
		c.cancel()
		all.Go(func() { <-c.ended })
	}
	all.Wait()
}
