// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// root is the path of the group of a test.
const root = "/jobs"

// world is members with a client and a link each, and what they have.
type world struct {
	tb     testing.TB
	server *zkserver.Server
	theirs *framework.Framework // of the test
	names  partition.Names

	mu       sync.Mutex
	story    []string
	hurt     map[int64]bool    // sessions that were ended from outside
	held     map[string]*piece // by partition: the last one that got it
	moves    int               // partitions that one member got from another
	loads    map[string]int    // that functions report when they begin, and report
	broken   []string
	arrivals chan struct{} // has room for one: a change of held
}

// piece is a partition that a member has got.
type piece struct {
	partition.Partition
	of      *worker
	session int64
	ended   bool // the function has returned
}

// worker is a member that runs.
type worker struct {
	*partition.Member
	w      *world
	client *framework.Framework
	link   *zkproxy.Proxy
	stop   context.CancelFunc
	ended  chan error
}

func newWorld(tb testing.TB, names partition.Names) *world {
	tb.Helper()
	w := &world{
		tb: tb, server: zktest.NewServer(tb, zkserver.WithoutListener()), names: names,
		hurt: make(map[int64]bool), held: make(map[string]*piece), arrivals: make(chan struct{}, 1),
	}
	w.theirs = zktest.Client(tb, w.server)
	return w
}

// play plays a test with a group on fake time.
func play(t *testing.T, names partition.Names, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, names)) })
}

func playAs(t *testing.T, name string, names partition.Names, test func(t *testing.T, w *world)) {
	t.Run(name, func(t *testing.T) { play(t, names, test) })
}

// numbered returns the names of n partitions.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("p%02d", i)
	}
	return names
}

func (w *world) didf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

func (w *world) brokenLockedf(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// join starts a member whose functions return when their context ends.
func (w *world) join(id string, opts ...partition.Option) *worker {
	return w.joinWith(id, nil, opts...)
}

// joinWith starts a member whose functions go on with last after the end of their context.
func (w *world) joinWith(id string, last func(context.Context, partition.Partition) error, opts ...partition.Option) *worker {
	w.tb.Helper()
	link := zktest.NewProxy(w.tb, w.server)
	worker := &worker{w: w, link: link, client: zktest.Client(w.tb, link), ended: make(chan error, 1)}
	worker.begin(id, last, opts...)
	return worker
}

// begin runs a member on the client of the worker.
func (k *worker) begin(id string, last func(context.Context, partition.Partition) error, opts ...partition.Option) {
	k.w.tb.Helper()
	k.w.didf("%s joins", id)
	member := must.Get(partition.New(k.client, root, k.w.names, append([]partition.Option{partition.WithID(id)}, opts...)...))(k.w.tb)
	ctx, cancel := context.WithCancel(context.Background())
	k.Member, k.stop = member, cancel
	done := make(chan struct{})
	k.w.tb.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		k.ended <- member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
			p.Lease.Context(ctx) // it is a lease that holds
			mine := k.w.got(k, p)
			<-ctx.Done()
			defer k.w.gave(mine)
			if last != nil {
				return last(ctx, p)
			}
			return context.Cause(ctx)
		})
	}()
}

func (w *world) got(k *worker, p partition.Partition) *piece {
	mine := &piece{Partition: p, of: k, session: p.Lease.Session().ID()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.held[p.Name]; before != nil {
		if before.Lease.Err() == nil && p.Lease.Err() == nil && !w.hurt[before.session] {
			w.brokenLockedf("%s has %s, and so has %s", before.of.ID(), p.Name, k.ID())
		}
		if before.Lease.Token() >= p.Lease.Token() {
			w.brokenLockedf("token %d of %s after %d", p.Lease.Token(), p.Name, before.Lease.Token())
		}
		if before.of.ID() != k.ID() {
			w.moves++
		}
	}
	w.held[p.Name] = mine
	w.reportLocked(mine)
	w.story = append(w.story, fmt.Sprintf("%s has %s", k.ID(), p.Name))
	w.arrived()
	return mine
}

func (w *world) reportLocked(p *piece) {
	if load, found := w.loads[p.Name]; found {
		if err := p.ReportLoad(load); err != nil {
			w.brokenLockedf("report: %v", err)
		}
	}
}

// report has all functions report other loads.
func (w *world) report(loads map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads = maps.Clone(loads)
	for _, p := range w.held {
		if !p.ended {
			w.reportLocked(p)
		}
	}
}

func (w *world) gave(mine *piece) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine.ended = true
	w.story = append(w.story, fmt.Sprintf("%s ends %s", mine.of.ID(), mine.Name))
	w.arrived()
}

func (w *world) arrived() {
	select {
	case w.arrivals <- struct{}{}:
	default:
	}
}

// leave stops a member in order.
func (k *worker) leave() {
	k.w.tb.Helper()
	k.w.didf("%s leaves", k.ID())
	k.stop()
	err := zktest.Await(k.w.tb, k.ended, "the end of "+k.ID())
	if !errors.Is(err, context.Canceled) {
		k.w.brokenLockedf("the run of %s has ended with %v", k.ID(), err)
	}
}

// counts returns how many partitions each member has that has any.
func (w *world) counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := make(map[string]int)
	for _, p := range w.held {
		if !p.ended && p.Lease.Err() == nil {
			counts[p.of.ID()]++
		}
	}
	return counts
}

// takenMoves returns the moves since the last call.
func (w *world) takenMoves() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.moves
	w.moves = 0
	return n
}

// await waits until the members have so many partitions, and none of them has one of gone.
func (w *world) await(want map[string]int, gone ...string) {
	w.tb.Helper()
	deadline := time.NewTimer(3 * time.Minute)
	defer deadline.Stop()
	for {
		got := w.counts()
		had := func(name string) bool { return w.owner(name) != "" }
		if fmt.Sprint(got) == fmt.Sprint(want) && !slices.ContainsFunc(gone, had) {
			break
		}
		select {
		case <-w.arrivals:
		case <-deadline.C:
			w.tb.Fatalf("the members have %v, expected %v:\n%s", got, want, w.told())
		}
	}
	w.check()
}

func (w *world) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.story, "\n")
}

func (w *world) check() {
	w.tb.Helper()
	w.mu.Lock()
	broken := slices.Clone(w.broken)
	w.mu.Unlock()
	require.Empty(w.tb, broken, "%s", w.told())
}

// owner returns the id of the member that has a partition, "" if there is none.
func (w *world) owner(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.held[name]
	if p == nil || p.ended || p.Lease.Err() != nil {
		return ""
	}
	return p.of.ID()
}

// requireNothingLeft checks that a group without members leaves nothing but containers. What a
// member's locks no longer watch is told to the server in the background.
func (w *world) requireNothingLeft() {
	w.tb.Helper()
	synctest.Wait()
	w.check()
	stats := w.server.Stats()
	require.Zero(w.tb, stats.Ephemerals)
	require.Zero(w.tb, stats.Watches)
	require.Nil(w.tb, must.Get(w.theirs.Exists(w.tb.Context(), root+"/plan"))(w.tb), "the plan is left")
}
