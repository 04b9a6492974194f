// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zksim"
)

// valueSimulations are programs of recipes that keep values, views and members, by name.
var valueSimulations = map[string]zksim.Program{
	"counter": countsUp(),
	"cache":   caches(zksim.Usual, true),
	// What a restore undoes comes back as an older state.
	"cache over restores": caches(append(slices.Repeat([]zksim.Fault{zksim.Restore}, 4), zksim.Usual...), false),
	"latch": {
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			return func(ctx context.Context, random *rand.Rand) {
				latch, err := leader.NewLeaderLatch(c.Framework, "/lock")
				if err == nil {
					err = latch.Start()
				}
				if err != nil {
					w.Findf("client %d: %v", c.Index, err)
					return
				}
				waiting, cancel := ctx, func() {}
				if random.IntN(3) == 0 {
					waiting, cancel = context.WithTimeout(ctx, upTo(random, 20*time.Second))
				}
				defer cancel()
				if lease, err := latch.Await(waiting); err == nil {
					leave := w.Enter(zksim.Hold{
						Key: "/lock", Client: c.Index, Exclusive: true, Token: lease.Token(),
						IsOver: func() bool { return lease.Err() != nil },
					})
					time.Sleep(upTo(random, 3*time.Second))
					leave()
				}
				w.Logf("client %d: close: %v", c.Index, latch.Close())
			}, nil
		},
	},
	"latches that stay":   latches(false),
	"latches and vandals": latches(true),
	"discovery":           instances(),
	"group":               group(),
}

// latches is about candidates that stay for all of a history: one leads at a time, each hears of its terms one after the other, and
// one leads when faults are over. Vandals end sessions and delete nodes, which the next leader may notice first.
func latches(vandals bool) zksim.Program {
	type candidates struct{ newest[*leader.LeaderLatch] }
	p := zksim.Program{
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			latch, err := leader.NewLeaderLatch(c.Framework, "/lock")
			if err == nil {
				hearsOfItsTerms(w, c, latch)
				err = latch.Start()
			}
			zksim.State[candidates](w).set(c, latch)
			return func(ctx context.Context, random *rand.Rand) {
				waiting, cancel := context.WithTimeout(ctx, upTo(random, 5*time.Second))
				defer cancel()
				lease, err := latch.Await(waiting)
				if err != nil {
					w.Logf("client %d: %v", c.Index, err)
					return
				}
				leave := w.Enter(zksim.Hold{
					Key: "/lock", Client: c.Index, Exclusive: !vandals,
					IsOver: func() bool { return lease.Err() != nil },
				})
				select {
				case <-time.After(upTo(random, 3*time.Second)):
				case <-lease.Done():
				}
				leave()
				switch random.IntN(3) {
				case 0:
					w.Logf("client %d resigns: %v", c.Index, latch.Resign(ctx))
				case 1:
					if vandals {
						w.Logf("client %d deletes its node: %v", c.Index, c.Delete(ctx, lease.Path()))
					}
				}
			}, err
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			all := zksim.State[candidates](w).of
			leads := make(chan bool, len(all))
			for _, latch := range all {
				go func() {
					_, err := latch.Await(ctx)
					leads <- err == nil
				}()
			}
			if !<-leads {
				w.Findf("no candidate leads half a minute after the last fault")
			}
			for _, latch := range all {
				if err := latch.Close(); err != nil || latch.HasLeadership() {
					w.Findf("a latch that is closed leads: %t: %v", latch.HasLeadership(), err)
				}
			}
			for _, z := range w.Servers.Znodes("/lock") {
				if z.Owner != 0 {
					w.Findf("%s is there when all latches are closed", z.Path)
				}
			}
		},
	}
	if vandals {
		p.Faults = append(slices.Repeat([]zksim.Fault{zksim.KillSession}, 8), zksim.Usual...)
	}
	return p
}

// hearsOfItsTerms finds that beginnings and ends of a candidate's terms do not alternate, or that terms do not rise.
func hearsOfItsTerms(w *zksim.World, c *zksim.Client, latch *leader.LeaderLatch) {
	leads, term := false, int64(0)
	latch.OnChange(func(change leader.Change) {
		if change.Leader == leads || leads != (change.Term == term) || change.Term < term || change.Leader != (change.Err == nil) {
			w.Findf("client %d hears of %+v after the term %#x, and it led: %t", c.Index, change, term, leads)
		}
		leads, term = change.Leader, change.Term
	})
}

// countsUp is about increments: each one that succeeds has a value of its own, and none is lost.
func countsUp() zksim.Program {
	type counts struct {
		sync.Mutex
		number    *atomic.DistributedAtomicLong // of any client
		given     map[int64]bool
		uncertain int
	}
	return zksim.Program{
		Actions: 12,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			number, err := atomic.NewDistributedAtomicLong(c.Framework, "/counter")
			all := zksim.State[counts](w)
			all.number = number
			return func(ctx context.Context, _ *rand.Rand) {
				value, err := number.Increment(ctx)
				w.Logf("client %d: %+v: %v", c.Index, value, err)
				all.Lock()
				defer all.Unlock()
				switch {
				case framework.OutcomeUnknown(err):
					all.uncertain++
				case err == nil && all.given[value.Post]:
					w.Findf("%d was given twice", value.Post)
				case err == nil:
					if all.given == nil {
						all.given = make(map[int64]bool)
					}
					all.given[value.Post] = true
				}
			}, err
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			all := zksim.State[counts](w)
			last, err := all.number.Add(ctx, 0)
			if n := len(all.given); err != nil || last.Post < int64(n) || last.Post > int64(n+all.uncertain) {
				w.Findf("the counter is %d after %d increments and %d in doubt: %v", last.Post, n, all.uncertain, err)
			}
		},
	}
}

// picture is a view of the tree with what its listener and a loop over one znode were told.
type picture struct {
	*cache.CuratorCache

	mu     sync.Mutex
	told   map[string]string // the data of each path, as the listener was told
	newest map[string]int64  // the Mzxid of the newest state that it was told, also of paths that are no more
	looped int64             // of the znode that the loop is about; 0 for none
	last   int64             // likewise, of the newest that there was
	end    context.CancelFunc
	loop   sync.WaitGroup
}

// looped is the znode that loops are about.
const looped = "/tree/0/0"

// openPicture opens a view of the tree. With strict, states of a path must be told in their order, and each once.
func openPicture(w *zksim.World, c *zksim.Client, strict bool) (*picture, error) {
	view, err := cache.NewCuratorCache(c.Framework, "/tree")
	if err != nil {
		return nil, err
	}
	p := &picture{CuratorCache: view, told: make(map[string]string), newest: make(map[string]int64)}
	view.Listen(func(e cache.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		was, there := p.told[e.Path]
		if e.Old != nil != there || there && string(e.Old.Data) != was {
			w.Findf("client %d was told %s of %s, and knew %q (%t)", c.Index, e.Type, e.Path, was, there)
		}
		if e.New == nil {
			delete(p.told, e.Path)
			return
		}
		now, last := e.New.Stat.Mzxid, p.newest[e.Path]
		if strict && now <= last {
			w.Findf("client %d was told %#x of %s after %#x", c.Index, now, e.Path, last)
		}
		p.told[e.Path], p.newest[e.Path] = string(e.New.Data), now
	}, cache.For(cache.NodeCreated, cache.NodeChanged, cache.NodeDeleted))
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	p.loop.Go(func() {
		for node, err := range c.Follow(ctx, looped) {
			if err != nil {
				continue
			}
			p.mu.Lock()
			if p.looped = 0; node.Exists() {
				p.looped = node.Stat.Mzxid
			}
			if strict && p.looped != 0 && p.looped < p.last {
				w.Findf("client %d was shown %#x of %s after %#x", c.Index, p.looped, looped, p.last)
			}
			p.last = max(p.last, p.looped)
			p.mu.Unlock()
		}
	})
	return p, view.Start()
}

// isFresh finds paths that the view has otherwise than the servers, although they have not changed meanwhile.
func (p *picture) isFresh(ctx context.Context, w *zksim.World, c *zksim.Client) {
	now, cancel := context.WithCancel(ctx)
	cancel()
	_, notAll := w.Servers.AwaitLeader(now)
	before := w.Servers.Znodes("/tree")
	err := p.Fresh(ctx)
	w.Logf("client %d: fresh: %v", c.Index, err)
	has := maps.Collect(p.Stream())
	after := w.Servers.Znodes("/tree")
	// A server that does not follow the leader may be a leader that was cut off, and reply without newer writes.
	if err != nil || len(before) == 0 || notAll != nil {
		return
	}
	newest := int64(0)
	for _, z := range before {
		newest = max(newest, z.Czxid)
		same := func(other zkserver.Znode) bool {
			return other.Path == z.Path && other.Czxid == z.Czxid && string(other.Data) == string(z.Data)
		}
		if data := has[z.Path]; slices.ContainsFunc(after, same) && (data == nil || string(data.Data) != string(z.Data)) {
			w.Findf("client %d has %v at %s, and the servers had %s before it was made fresh", c.Index, data, z.Path, z.Data)
		}
	}
	for path, data := range has {
		isIt := func(z zkserver.Znode) bool { return z.Path == path && z.Czxid == data.Stat.Czxid }
		// A restore in between may have brought it back.
		if data.Stat.Mzxid <= newest && !slices.ContainsFunc(before, isIt) && !slices.ContainsFunc(after, isIt) {
			w.Findf("client %d has %s, which was deleted before it was made fresh", c.Index, path)
		}
	}
}

// caches is about views: in the end each has what the servers have, and its listener and a loop were told so.
func caches(faults []zksim.Fault, strict bool) zksim.Program {
	type pictures []*picture
	return zksim.Program{
		Actions: 12,
		Faults:  faults,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			p, err := openPicture(w, c, strict)
			all := zksim.State[pictures](w)
			*all = append(*all, p)
			return func(ctx context.Context, random *rand.Rand) {
				path := fmt.Sprintf("/tree/%d/%d", random.IntN(2), random.IntN(3))
				data := strconv.AppendInt(nil, random.Int64(), 10)
				var err error
				switch random.IntN(5) {
				case 0, 1:
					_, err = c.Create(ctx, path, data, framework.CreatingParentsIfNeeded())
				case 2:
					err = c.Set(ctx, path, data, framework.WithVersion(framework.AnyVersion))
				case 3:
					err = c.Delete(ctx, path, framework.WithVersion(framework.AnyVersion))
				default:
					p.isFresh(ctx, w, c)
				}
				w.Logf("client %d: %s: %v", c.Index, path, err)
			}, err
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			for i, p := range *zksim.State[pictures](w) {
				if err := p.Fresh(ctx); err != nil {
					w.Findf("view %d: %v", i, err)
				}
				time.Sleep(10 * time.Second) // the listener and the loop are told
				p.agrees(w, i)
				p.end()
				p.loop.Wait()
				if err := p.Close(); err != nil {
					w.Findf("view %d: %v", i, err)
				}
			}
		},
	}
}

// agrees finds what a view has, or was told of, otherwise than the servers.
func (p *picture) agrees(w *zksim.World, i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	znodes, loop := w.Servers.Znodes("/tree"), int64(0)
	if p.Size() != len(znodes) || len(p.told) != len(znodes) {
		w.Findf("view %d has %d znodes, and was told of %d, and the servers have %d", i, p.Size(), len(p.told), len(znodes))
	}
	for _, z := range znodes {
		has, found := p.Get(z.Path)
		if !found || string(has.Data) != string(z.Data) || p.told[z.Path] != string(z.Data) {
			w.Findf("view %d has %v at %s, and was told %q, and the servers have %q", i, has, z.Path, p.told[z.Path], z.Data)
			continue
		}
		if z.Path == looped {
			loop = has.Stat.Mzxid
		}
	}
	if p.looped != loop {
		w.Findf("loop %d was shown %#x, and the servers have %#x", i, p.looped, loop)
	}
}

// instances is about services: those that are registered are there, and those that were unregistered are not.
func instances() zksim.Program {
	type registered struct {
		sync.Map // whether the instance is, by its id

		watchers newest[*discovery.ServiceCache[string]]
	}
	return zksim.Program{
		Requests: 120, // to have six instances again
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			all, n := zksim.State[registered](w), 0
			services, err := discovery.NewServiceDiscovery[string](c.Framework, "/services", nil)
			if err != nil {
				return nil, err
			}
			watcher, err := services.NewCache("orders")
			if err == nil {
				err = watcher.Start()
			}
			all.watchers.set(c, watcher)
			all.Range(func(id, _ any) bool { // those of a process with this number that was killed are gone, or will be
				if strings.HasPrefix(id.(string), strconv.Itoa(c.Index)+"-") {
					all.Store(id, false)
				}
				return true
			})
			return func(ctx context.Context, random *rand.Rand) {
				n++
				instance := discovery.NewInstance[string]("orders", "10.0.0.7", 8080)
				instance.ID = fmt.Sprintf("%d-%d", c.Index, n)
				err := services.Register(ctx, instance)
				w.Logf("client %d: registers %s: %v", c.Index, instance.ID, err)
				if ctx.Err() != nil { // the process was killed
					return
				}
				all.Store(instance.ID, err == nil)
				if err != nil || random.IntN(2) == 0 {
					return
				}
				time.Sleep(upTo(random, 2*time.Second))
				err = services.Unregister(instance)
				w.Logf("client %d: unregisters %s: %v", c.Index, instance.ID, err)
				all.Store(instance.ID, false)
			}, err
		},
		Settled: func(_ context.Context, w *zksim.World) {
			time.Sleep(time.Minute) // what could not be created or deleted at once is by now
			there := make(map[string]bool)
			for _, z := range w.Servers.Znodes("/services/orders") {
				if id, isInstance := strings.CutPrefix(z.Path, "/services/orders/"); isInstance {
					there[id] = true
				}
			}
			all := zksim.State[registered](w)
			for id, want := range all.Range {
				if there[id.(string)] != want {
					w.Findf("instance %s is there: %t, expected %t", id, there[id.(string)], want)
				}
			}
			for i, watcher := range all.watchers.of {
				seen := watcher.Instances()
				if len(seen) != len(there) || slices.ContainsFunc(seen, func(s *discovery.ServiceInstance[string]) bool { return !there[s.ID] }) {
					w.Findf("watcher %d has %v, and the servers have %v", i, seen, there)
				}
				if err := watcher.Close(); err != nil {
					w.Findf("watcher %d: %v", i, err)
				}
			}
		},
	}
}

// group is about members: each has the data of all that are there in the end, and of no other.
func group() zksim.Program {
	type members [3]*nodes.GroupMember // of the clients
	return zksim.Program{
		Faults: append(slices.Repeat([]zksim.Fault{zksim.KillSession}, 2), zksim.Usual...),
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			all, n := zksim.State[members](w), 0
			own := func() []byte { n++; return fmt.Appendf(nil, "%d-%d", c.Index, n) }
			join := func() error {
				member, err := nodes.NewGroupMember(c.Framework, "/group", strconv.Itoa(c.Index), own())
				if err == nil {
					err = member.Start()
				}
				all[c.Index] = member
				return err
			}
			return func(ctx context.Context, random *rand.Rand) {
				ctx, cancel := context.WithTimeout(ctx, upTo(random, 5*time.Second))
				defer cancel()
				member := all[c.Index]
				var err error
				switch random.IntN(3) {
				case 0:
					err = member.SetData(ctx, own())
				case 1:
					err = member.WaitUntilJoined(ctx)
				default:
					err = errors.Join(member.Close(), join())
				}
				w.Logf("client %d: %v", c.Index, err)
			}, join()
		},
		Settled: func(_ context.Context, w *zksim.World) {
			time.Sleep(time.Minute) // what could not be created or deleted at once is by now
			want := make(map[string][]byte)
			for _, z := range w.Servers.Znodes("/group") {
				if id, isMember := strings.CutPrefix(z.Path, "/group/"); isMember {
					want[id] = z.Data
				}
			}
			for i, member := range *zksim.State[members](w) {
				if member == nil {
					continue // its client was left out
				}
				if seen := member.Members(); len(want) != w.Size() || !maps.EqualFunc(seen, want, bytes.Equal) {
					w.Findf("member %d has %q, and the servers have %q of %d members", i, seen, want, w.Size())
				}
			}
			for i, member := range *zksim.State[members](w) {
				if member == nil {
					continue
				}
				if err := member.Close(); err != nil {
					w.Findf("member %d: %v", i, err)
				}
			}
		},
	}
}
