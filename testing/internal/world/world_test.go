// SPDX-License-Identifier: Apache-2.0

// Package world plays the recipes together: several processes use all of them in one tree, with options that a seed draws, while servers,
// networks and processes fail. [zksim] judges holds and calls, and the files here what recipes promise beyond that.
package world

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zksim"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

var histories = flag.Int("histories", 10, "how many histories TestWorld plays")

// TestWorld plays fleets, one after the other.
func TestWorld(t *testing.T) {
	random := seeds.New(t)
	seed, fleets := random.Uint64(), covering(random)
	began, expired := time.Now(), 0
	for n := range *histories {
		fleet := fleets[n%len(fleets)]
		h := zksim.Run(t, seed+uint64(n), program(fleet))
		expired += h.Expired
		if len(h.Findings) == 0 {
			continue
		}
		t.Logf("history %d, after %v, of the fleet\n%v\n%s", n, time.Since(began), fleet, strings.Join(h.Findings, "\n"))
		zksim.Check(t, seed+uint64(n), 1, program(fleet))
		t.Fatalf("not found again:\n%s", strings.Join(h.Log, "\n"))
	}
	t.Logf("%d histories with %d expired sessions, %.1f a second", *histories, expired, float64(*histories)/time.Since(began).Seconds())
}

func (o options) String() string {
	var all []string
	for i, f := range factors {
		if o[i] != f.values[0] {
			all = append(all, f.name+": "+o[i])
		}
	}
	return strings.Join(all, ", ")
}

// recipes are what an action may be about.
var recipes = []string{"mutex", "read/write lock", "semaphore", "election", "queue", "counter", "slots", "discovery", "transactions", "orders"}

func program(o options) zksim.Program {
	timeout, _ := time.ParseDuration(o.get("session"))
	p := zksim.Program{
		Actions: 10, Requests: 1000,
		Faults:  faults(o),
		Options: []framework.Option{framework.WithSessionTimeout(timeout)},
		Join: func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
			return join(w, c, o)
		},
		Settled: func(ctx context.Context, w *zksim.World) { zksim.State[truth](w).settle(ctx, w) },
	}
	switch o.get("policy") {
	case "quorum":
		p.Options = append(p.Options, framework.WithErrorPolicy(framework.QuorumErrorPolicy))
	case "session":
		p.Options = append(p.Options, framework.WithErrorPolicy(framework.SessionErrorPolicy))
	default:
	}
	if o.is("retry", "forever") {
		p.Options = append(p.Options, framework.WithRetryPolicy(retry.Forever(200*time.Millisecond)))
	}
	if o.is("compression", "on") {
		p.Options = append(p.Options, framework.WithCompression())
	}
	return p
}

// faults are those against which a fleet keeps all promises.
func faults(o options) (all []zksim.Fault) {
	servers := []zksim.Fault{
		zksim.StopServer, zksim.StopLeader, zksim.StopAll, zksim.LagTime, zksim.LagCount, zksim.SlowLinks, zksim.ChangeLeader,
	}
	if !o.is("policy", "session") { // which does not hold against servers that are cut off
		servers = append(servers, zksim.PauseServer, zksim.Isolate, zksim.IsolateOld, zksim.CutOneWay, zksim.ClockRate)
	}
	clients := []zksim.Fault{zksim.CutClient, zksim.SilentClient, zksim.LoseReplies, zksim.LoseRequests, zksim.SlowRequests}
	processes := []zksim.Fault{zksim.KillProcess, zksim.KillProcess, zksim.PauseProcess}
	switch o.get("faults") {
	case "servers":
		return servers
	case "clients":
		return clients
	case "processes":
		return processes
	default:
		return slices.Concat(servers, clients, processes, processes)
	}
}

// truth is what is true of a fleet, beside what the servers have.
type truth struct {
	sync.Mutex
	members map[int]*member // the newest of each process

	lost     map[string]time.Time // when the newest hold of a lock was lost
	owned    map[string]int       // how many functions of a partition run
	items    items
	counter  counter
	there    map[string]bool // whether an instance is registered
	schedule jobs
}

// member is a process.
type member struct {
	w      *zksim.World
	c      *zksim.Client
	client *framework.Framework // with the fleet's namespace
	o      options
	all    *truth

	mutex   *locks.InterProcessMutex
	acts    map[string]func(ctx context.Context, random *rand.Rand)
	serve   []func(ctx context.Context) // for as long as the process lives
	close   []func() error
	tree    *cache.CuratorCache
	begin   sync.Once
	serving sync.WaitGroup
}

func join(w *zksim.World, c *zksim.Client, o options) (func(context.Context, *rand.Rand), error) {
	m := &member{w: w, c: c, client: c.Framework, o: o, all: zksim.State[truth](w), acts: make(map[string]func(context.Context, *rand.Rand))}
	if o.is("namespace", "app") {
		view, err := c.UsingNamespace("app")
		if err != nil {
			return nil, err
		}
		m.client = view
	}
	for _, prepare := range []func() error{m.locks, m.values, m.queue, m.partitions, m.jobs, m.views} {
		if err := prepare(); err != nil {
			return nil, err
		}
	}
	m.all.Lock()
	if m.all.members == nil {
		m.all.members = make(map[int]*member)
	}
	before := m.all.members[c.Index]
	m.all.members[c.Index] = m
	m.all.Unlock()
	if before != nil {
		before.closeAll()
	}
	return func(ctx context.Context, random *rand.Rand) {
		m.begin.Do(func() { m.live(ctx) })
		about := recipes[random.IntN(len(recipes))]
		switch random.IntN(5) {
		case 0, 1:
			about = o.get("first")
		case 2, 3:
			about = o.get("second")
		default: // anything
		}
		m.acts[about](ctx, random)
	}, nil
}

// live has the process do what it does beside its actions, until ctx ends.
func (m *member) live(ctx context.Context) {
	for _, serve := range m.serve {
		m.serving.Go(func() { serve(ctx) })
	}
}

func (m *member) closeAll() {
	m.serving.Wait()
	for _, end := range m.close {
		if err := end(); err != nil {
			m.w.Logf("client %d: close: %v", m.c.Index, err)
		}
	}
}

func (m *member) logf(format string, args ...any) {
	m.w.Logf("client %d: %s", m.c.Index, fmt.Sprintf(format, args...))
}

func (m *member) findf(format string, args ...any) {
	m.w.Findf("client %d: %s", m.c.Index, fmt.Sprintf(format, args...))
}

// settle judges a fleet when faults are over.
func (all *truth) settle(ctx context.Context, w *zksim.World) {
	var one *member
	for _, m := range all.members {
		m.serving.Wait()
		one = m
	}
	all.settleGroup(ctx, w, one)
	time.Sleep(time.Minute) // what could not be deleted at once is by now
	all.settleItems(ctx, one)
	all.settleCounter(ctx, one)
	all.settleJobs(one)
	all.settleViews(ctx)
	for _, m := range all.members {
		m.closeAll()
	}
	time.Sleep(10 * time.Second)
	for _, z := range one.znodes("/") {
		if z.Owner != 0 {
			w.Findf("%s is left behind", z.Path)
		}
	}
}

// znodes are those of the fleet at a path, with data as it was before compression.
func (m *member) znodes(path string) []zkserver.Znode {
	root := ""
	if m.o.is("namespace", "app") {
		root = "/app"
	}
	all := m.w.Servers.Znodes(root + strings.TrimSuffix(path, "/"))
	if root+path == "/" {
		all = m.w.Servers.Znodes("/")
	}
	all = slices.DeleteFunc(all, func(z zkserver.Znode) bool { return strings.HasPrefix(z.Path, "/zookeeper") })
	for i, z := range all {
		all[i].Path, all[i].Data = "/"+strings.TrimPrefix(strings.TrimPrefix(z.Path, root), "/"), plain(z.Data)
	}
	return all
}

func plain(data []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return data
	}
	all, err := io.ReadAll(r)
	if err != nil {
		return data
	}
	return all
}

func upTo(random *rand.Rand, bound time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(bound)))
}
