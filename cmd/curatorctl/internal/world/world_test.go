// SPDX-License-Identifier: Apache-2.0

// Package world plays the recipes together: several processes use all of them in one tree, with options that a seed draws, while servers,
// networks and processes fail. [zksim] judges holds and calls, and the files here what recipes promise beyond that, and what operators are told.
package world

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zksim"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

var (
	histories = flag.Int("histories", 30, "how many histories TestWorld plays")
	from      = flag.Int("from", 0, "which history of the seed TestWorld plays first")
)

// TestWorld plays fleets, one after the other.
func TestWorld(t *testing.T) {
	random := seeds.New(t)
	seed, fleets := random.Uint64(), covering(random)
	began, expired, counts := time.Now(), 0, make(map[string]int)
	for n := *from; n < *from+*histories; n++ {
		fleet := fleets[n%len(fleets)]
		h := zksim.Run(t, seed+uint64(n), program(fleet, counts))
		expired += h.Expired
		if len(h.Findings) == 0 {
			continue
		}
		t.Logf("history %d, after %v, of the fleet\n%v\n%s", n, time.Since(began), fleet, strings.Join(h.Findings, "\n"))
		zksim.Check(t, seed+uint64(n), 1, program(fleet, counts))
		t.Fatalf("not found again:\n%s", strings.Join(h.Log, "\n"))
	}
	t.Logf("%d histories with %d expired sessions, %.1f a second", *histories, expired, float64(*histories)/time.Since(began).Seconds())
	for _, rule := range rules {
		t.Logf("%5d histories could have broken: %s", counts[rule], rule)
		if *histories >= 3000 { // in which each has its chance
			assert.NotZero(t, counts[rule], "no history can break the rule: %s", rule)
		}
	}
}

// recipes are what a fleet may play. Most of them are what an action may be about.
var recipes = []string{
	"mutex", "read/write lock", "semaphore", "election", "once", "queue", "counter", "slots", "discovery", "transactions", "partitions", "jobs", "crossing",
	"barrier", "double barrier", "nodes", "views", "operator",
}

func program(o options, counts map[string]int) zksim.Program {
	timeout, _ := time.ParseDuration(o.get("session"))
	p := zksim.Program{
		Actions: 10, Requests: 1000,
		Faults:  faults(o),
		Options: []framework.Option{framework.WithSessionTimeout(timeout)},
		Join: func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
			return join(w, c, o)
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			const longest = 15 * time.Minute // what waits for ever ends with a finding, too
			ctx, cancel := context.WithTimeout(ctx, longest)
			defer cancel()
			all := zksim.State[truth](w)
			if all.settle(ctx, w); ctx.Err() != nil {
				w.Findf("the fleet does not come to rest for %v", longest)
			}
			all.chances.addTo(counts)
		},
	}
	switch o.get("policy") {
	case "quorum":
		p.Options = append(p.Options, framework.WithErrorPolicy(framework.QuorumErrorPolicy))
	case "session":
		p.Options = append(p.Options, framework.WithErrorPolicy(framework.SessionErrorPolicy))
	default:
	}
	if o.is("access", "creators") {
		p.Options = append(p.Options, framework.WithAuth("digest", credential), framework.WithACLProvider(creators{}))
	}
	if o.is("servers", "tracked") {
		p.Options = append(p.Options, framework.WithEnsembleTracker())
	}
	if o.is("retry", "forever") {
		p.Options = append(p.Options, framework.WithRetryPolicy(retry.Forever(200*time.Millisecond)))
	}
	switch o.get("compression") {
	case "on":
		p.Options = append(p.Options, framework.WithCompression())
	case "mixed":
		p.Options = append(p.Options, framework.WithCompression(), framework.WithCompressionProvider(bothForms{}))
	default:
	}
	return p
}

// faults are those against which a fleet keeps all promises.
func faults(o options) (all []zksim.Fault) {
	servers := []zksim.Fault{
		zksim.StopLeader, zksim.StopAll, zksim.LagTime, zksim.LagCount, zksim.SlowLinks, zksim.ChangeLeader,
	}
	if !o.is("policy", "session") { // which does not hold against followers that are cut off or die
		servers = append(servers, zksim.StopServer, zksim.PauseServer, zksim.Replace, zksim.Replace, zksim.Isolate, zksim.IsolateOld, zksim.CutOneWay, zksim.ClockRate)
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
	case "restores":
		// Clients see that servers were restored if no leader was elected since the backup was made, and if servers answer the question which
		// znodes there are: one that hangs up three times counts as too old for it.
		return []zksim.Fault{zksim.Restore, zksim.Restore, zksim.LagTime, zksim.CutClient, zksim.SilentClient, zksim.SlowRequests}
	default:
		return slices.Concat(servers, clients, processes, processes)
	}
}

// truth is what is true of a fleet, beside what the servers have.
type truth struct {
	sync.Mutex
	members map[int]*member // the newest of each process

	w         *zksim.World
	calm      bool // faults are over
	chances   chances
	lost      map[string]time.Time // when the newest hold of a lock was lost
	begun     map[string]time.Time // when the newest hold began
	group     group
	gate      gate
	meetings  meetings
	done      done
	items     items
	counter   counter
	there     map[string]bool // whether an instance is registered
	schedule  jobs
	operators operators
}

// member is a process.
type member struct {
	w      *zksim.World
	c      *zksim.Client
	client *framework.Framework // with the fleet's namespace
	o      options
	all    *truth

	mutex   *locks.InterProcessMutex
	raise   func(context.Context)                // a counter by one
	last    func(context.Context) (int64, error) // the counter
	runOnce func(ctx context.Context, key string, lasts time.Duration, fails error) (ran bool, err error)
	acts    map[string]func(ctx context.Context, random *rand.Rand)
	serve   []func(ctx context.Context) // for as long as the process lives
	close   []func() error
	tree    *cache.CuratorCache

	services *discovery.ServiceDiscovery[string]
	found    *discovery.ServiceCache[string]

	told    map[string]string // the data of each path, as the listener of tree was told
	family  *kin
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
	for _, prepare := range []struct {
		recipe string
		do     func() error
	}{
		{"", m.locks},
		{"", m.values},
		{"once", m.once},
		{"queue", m.queue},
		{"partitions", m.partitions},
		{"jobs", m.jobs},
		{"views", m.views},
		{"discovery", m.discovery},
		{"barrier", m.gates},
		{"double barrier", m.meets},
		{"nodes", m.kin},
		{"", m.operates},
	} {
		if prepare.recipe != "" && !o.plays(prepare.recipe) {
			continue
		}
		if err := prepare.do(); err != nil {
			return nil, err
		}
	}
	var about []string
	for _, recipe := range o.recipes() {
		if m.acts[recipe] != nil {
			about = append(about, recipe)
		}
	}
	m.all.Lock()
	m.all.w = w
	if m.all.members == nil {
		m.all.members, m.all.lost, m.all.begun = make(map[int]*member), make(map[string]time.Time), make(map[string]time.Time)
	}
	before := m.all.members[c.Index]
	m.all.members[c.Index] = m
	m.all.Unlock()
	if before != nil {
		before.closeAll()
	}
	return func(ctx context.Context, random *rand.Rand) {
		m.begin.Do(func() { m.live(ctx) })
		m.acts[about[random.IntN(len(about))]](ctx, random)
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

// forgets reports whether servers may have forgotten what they had confirmed: those that come back from a backup. Then all must go on as soon as
// faults are over, and what was true before does not count.
func (m *member) forgets() bool {
	m.all.Lock()
	defer m.all.Unlock()
	return m.o.is("faults", "restores") && !m.all.calm
}

func (m *member) logf(format string, args ...any) {
	m.w.Logf("client %d: %s", m.c.Index, fmt.Sprintf(format, args...))
}

func (m *member) findf(format string, args ...any) {
	m.w.Findf("client %d: %s", m.c.Index, fmt.Sprintf(format, args...))
}

// settleGroups has members of groups and replicas of jobs live without faults.
func (all *truth) settleGroups(ctx context.Context, w *zksim.World, m *member) {
	if !m.o.plays("partitions") && !m.o.plays("jobs") {
		return
	}
	serving, end := context.WithCancel(ctx)
	defer end()
	for _, other := range all.members {
		other.live(serving)
	}
	time.Sleep(calm / 3)
	if m.o.plays("jobs") {
		for _, job := range jobNames {
			if err := schedule.Resume(ctx, m.client, "/jobs", job); err != nil && all.knows(job) {
				w.Findf("resume: %v", err)
			}
		}
	}
	if m.o.plays("partitions") {
		all.settlePartitions(ctx, w, m)
	} else {
		time.Sleep(calm)
	}
	if m.o.plays("jobs") {
		all.settlePause(ctx, m)
		all.settleLists(ctx, m)
		all.judgeGoing(m)
	}
	end()
	for _, other := range all.members {
		other.serving.Wait()
	}
}

// sorted returns the newest member of each process, in order.
func (all *truth) sorted() (members []*member) {
	for _, i := range slices.Sorted(maps.Keys(all.members)) {
		members = append(members, all.members[i])
	}
	return members
}

// settle judges a fleet when faults are over.
func (all *truth) settle(ctx context.Context, w *zksim.World) {
	var one *member
	for _, m := range all.members {
		m.serving.Wait()
		one = m
	}
	all.Lock()
	all.calm = true
	all.Unlock()
	all.settleGroups(ctx, w, one)
	time.Sleep(30 * time.Second) // what could not be deleted at once is by now
	all.settleOnce(ctx, one)
	all.settleItems(ctx, one)
	all.settleCounter(ctx, one)
	all.settleJobs(one)
	all.settleDiscovery(ctx, one)
	all.settleNodes(ctx, one)
	all.settleGate(ctx, one)
	all.settleMeetings(ctx, one)
	all.settleDelay(ctx, one)
	all.settleAsked(ctx, one)
	all.settleViews(ctx)
	all.settleServers(ctx, w, one)
	all.settleOperator(ctx, w, one)
	for _, m := range all.members {
		m.closeAll()
	}
	time.Sleep(10 * time.Second)
	for _, z := range one.znodes("/") {
		if z.Owner != 0 && !one.o.is("faults", "restores") {
			w.Findf("%s is left behind", z.Path)
		}
	}
}

// settleServers has a server leave the ensemble, and stop, and has clients that follow the ensemble go elsewhere.
func (all *truth) settleServers(ctx context.Context, w *zksim.World, m *member) {
	if !m.o.is("servers", "tracked") {
		return
	}
	all.chance(ruleTracked)
	follow := func(servers []string) {
		time.Sleep(5 * time.Second)
		for _, other := range all.members {
			if got := other.c.Servers(); !slices.Equal(got, servers) {
				other.findf("the ensemble has the servers %v, and the client knows %v", servers, got)
			}
		}
	}
	servers := strings.Split(w.Servers.ConnectString(), ",")
	s := w.Servers.Followers()[0]
	follow(servers)
	if err := w.Servers.Leave(s); err != nil {
		w.Findf("server %d: %v", s.ID(), err)
	}
	follow(slices.Delete(slices.Clone(servers), s.ID()-1, s.ID()))
	err := errors.Join(s.Stop(), s.Restart())
	_, leads := w.Servers.AwaitLeader(ctx)
	if err := errors.Join(err, leads, w.Servers.Join(s)); err != nil {
		w.Findf("server %d: %v", s.ID(), err)
	}
	follow(servers)
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

// credential is the identity of all processes of a fleet with access for creators.
var credential = []byte("fleet:secret")

// creators gives znodes to those who have the identity of their creator.
type creators struct{}

func (creators) DefaultACL() []framework.ACL       { return framework.CreatorAllACL() }
func (creators) ACLForPath(string) []framework.ACL { return nil }

// bothForms reads what is compressed and what is not, as a fleet does that goes over to compression. The length of what it writes decides.
type bothForms struct {
	framework.GzipCompressionProvider
}

func (b bothForms) Compress(path string, data []byte) ([]byte, error) {
	if len(data)%2 == 0 {
		return data, nil
	}
	return b.GzipCompressionProvider.Compress(path, data)
}

func (bothForms) Decompress(_ string, stored []byte) ([]byte, error) { return plain(stored), nil }

// plain returns data as it was before compression.
func plain(data []byte) []byte {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) { // the beginning of a gzip stream
		return data
	}
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
