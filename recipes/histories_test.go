// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	counters "github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/recipes/typed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The contents that views show before and after their servers have begun again. They are JSON,
// and four bytes long as a count is.
const earlier, later = `"o1"`, `"n2"`

// seen is what a view shows now, "" for nothing, and how many states its users were told of. What
// is nil, the view does not have.
type seen struct {
	shows func() string
	told  *atomic.Int64
	check func() // of what else is right once the content is
}

// view is anything that keeps what it has read.
type view struct {
	name string

	// put makes the servers have a content, for the first time or in place of another one.
	put func(t *testing.T, client *framework.Framework, content string)

	// open opens the view, and returns when it shows the content that the servers have.
	open func(t *testing.T, client *framework.Framework) seen

	statIsNews bool // an equal content with another Stat is another state
}

var views = []view{
	{name: "cache", put: putNode, open: func(t *testing.T, client *framework.Framework) seen {
		return openCache(t, client, "/view")
	}},
	{name: "cache of one znode", put: putNode, open: func(t *testing.T, client *framework.Framework) seen {
		return openCache(t, client, "/view/node", cache.SingleNodeCache())
	}},
	{name: "cache without data", put: putNode, open: func(t *testing.T, client *framework.Framework) seen {
		var newest atomic.Value
		s := openCache(t, client, "/view", cache.WithStorage(cache.NewStorageWithoutData()), func(e cache.Event) {
			if e.Path == "/view/node" {
				newest.Store(string(e.New.Data))
			}
		})
		return seen{shows: func() string { return newest.Load().(string) }, told: s.told}
	}},
	{name: "typed cache", put: putNode, open: func(t *testing.T, client *framework.Framework) seen {
		c := startCache(t, client, "/view")
		node := must.Get(typed.NewNode(client, "/view/node", typed.JSON[string]()))(t)
		return seen{shows: func() string {
			if value, _, err := node.Cached(c); err == nil {
				return strconv.Quote(value)
			}
			return ""
		}, check: func() {
			_, stat, err := node.Cached(c)
			require.NoError(t, err)
			requireCurrent(t, client, "/view/node", stat)
		}}
	}},
	{name: "Follow", put: putNode, statIsNews: true, open: func(t *testing.T, client *framework.Framework) seen {
		return loop(t, func(ctx context.Context) iter.Seq2[framework.Node, error] { return client.Follow(ctx, "/view/node") },
			func(node framework.Node) string { return string(node.Data) })
	}},
	{name: "FollowChildren", put: putChild, statIsNews: true, open: func(t *testing.T, client *framework.Framework) seen {
		folders := func(ctx context.Context) iter.Seq2[framework.Folder, error] {
			return client.FollowChildren(ctx, "/view")
		}
		return loop(t, folders, func(folder framework.Folder) string { return strings.Join(folder.Names, " ") })
	}},
	{name: "Observe", put: putCandidate, statIsNews: true, open: func(t *testing.T, client *framework.Framework) seen {
		latch := must.Get(leader.NewLeaderLatch(client, "/view"))(t)
		return loop(t, latch.Observe, func(p *locks.Participant) string { return p.Identity })
	}},
	{name: "shared value", put: putNode, open: func(t *testing.T, client *framework.Framework) seen {
		v := must.Get(shared.NewSharedValue(client, "/view/node", nil))(t)
		require.NoError(t, v.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, v.Close()) })
		told := new(atomic.Int64)
		v.OnChange(func(shared.VersionedValue) { told.Add(1) })
		return seen{func() string { return string(v.Value()) }, told, func() {
			require.True(t, must.Get(v.TrySetValue(t.Context(), v.VersionedValue(), []byte("mine")))(t))
			require.Equal(t, "mine", string(v.Value()))
			require.NoError(t, v.SetValue(t.Context(), []byte("once more")))
			require.Equal(t, "once more", string(v.Value()))
		}}
	}},
	{name: "shared count", put: putNode, open: func(t *testing.T, client *framework.Framework) seen {
		c := must.Get(shared.NewSharedCount(client, "/view/node", 0))(t)
		require.NoError(t, c.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		told := new(atomic.Int64)
		c.OnChange(func(shared.VersionedCount) { told.Add(1) })
		return seen{func() string {
			n := must.Get(c.Count())(t)
			return string(binary.BigEndian.AppendUint32(nil, uint32(n)))
		}, told, func() {
			now := must.Get(c.VersionedCount())(t)
			require.True(t, must.Get(c.TrySetCount(t.Context(), now, 7))(t))
		}}
	}},
	{name: "group", put: putNode, open: func(t *testing.T, client *framework.Framework) seen {
		member := must.Get(nodes.NewGroupMember(client, "/view", "me", nil))(t)
		told := new(atomic.Int64)
		member.OnChange(func(c nodes.MemberChange) {
			if c.ID == "node" {
				told.Add(1)
			}
		})
		require.NoError(t, member.Start())
		t.Cleanup(func() { require.NoError(t, member.Close()) })
		require.NoError(t, member.WaitUntilJoined(t.Context()))
		return seen{shows: func() string { return string(member.Members()["node"]) }, told: told}
	}},
	{name: "provider", put: putService, open: func(t *testing.T, client *framework.Framework) seen {
		d := must.Get(discovery.NewServiceDiscovery(client, "/view", discovery.Serializer[any](discovery.JSONSerializer[any]{})))(t)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		c := must.Get(d.NewCache("service"))(t)
		told := new(atomic.Int64)
		c.OnChange(func([]*discovery.ServiceInstance[any]) { told.Add(1) })
		require.NoError(t, c.Start())
		require.NoError(t, c.Wait(t.Context()))
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		p, err := d.NewProvider("service", discovery.ProviderConfig[any]{Down: discovery.DownInstancePolicy{Threshold: 1, Timeout: time.Hour}})
		require.NoError(t, err)
		require.NoError(t, p.Start())
		require.NoError(t, p.Wait(t.Context()))
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		known := must.Get(p.Instance())(t)
		p.NoteError(known)
		unchanged := c.Instances()[0]
		return seen{told: told, shows: func() string {
			for _, instance := range c.Instances() {
				return strconv.Quote(instance.Address)
			}
			return ""
		}, check: func() {
			if reflect.DeepEqual(c.Instances()[0], unchanged) {
				require.Empty(t, p.Instances(), "the instance stays down, even if another one was there in between")
			} else {
				require.Len(t, p.Instances(), 1, "another one is up")
			}
		}}
	}},
	{name: "simple queue", put: putItem, open: func(t *testing.T, client *framework.Framework) seen {
		q := must.Get(queues.NewSimpleDistributedQueue(client, "/view"))(t)
		first := func() string {
			item, err := q.Peek(t.Context())
			if err != nil {
				return "" // of an outage, where servers take their time
			}
			return string(item)
		}
		first() // so that it knows the names
		return seen{shows: first}
	}},
}

func putNode(t *testing.T, client *framework.Framework, content string) {
	must.Get(client.Create(t.Context(), "/view/node", []byte(content), framework.CreatingParentsIfNeeded(), framework.OrSetData()))(t)
}

func putService(t *testing.T, client *framework.Framework, content string) {
	data := fmt.Sprintf(`{"name":"service","id":"node","address":%s,"port":1,"serviceType":"STATIC","registrationTimeUTC":0}`, content)
	must.Get(client.Create(t.Context(), "/view/service/node", []byte(data), framework.CreatingParentsIfNeeded(), framework.OrSetData()))(t)
}

// putChild makes a content the name of the only child.
func putChild(t *testing.T, client *framework.Framework, content string) {
	putOnly(t, client, content, content)
}

// putCandidate has a later candidate stand before the earlier one.
func putCandidate(t *testing.T, client *framework.Framework, content string) {
	name := func(number int) string {
		return fmt.Sprintf("_c_00000000-0000-0000-0000-00000000000%d-latch-%010d", number, number)
	}
	switch content {
	case earlier:
		putOnly(t, client, content, name(5))
	case later:
		putOnly(t, client, content, name(5), name(3))
	default:
		putOnly(t, client, content, name(4))
	}
}

// putOnly creates these children, as far as they are missing, and deletes all others.
func putOnly(t *testing.T, client *framework.Framework, content string, names ...string) {
	for _, name := range names {
		_, err := client.Create(t.Context(), "/view/"+name, []byte(content), framework.CreatingParentsIfNeeded())
		if !errors.Is(err, framework.ErrNodeExists) {
			require.NoError(t, err)
		}
	}
	children := must.Get(client.Children(t.Context(), "/view"))(t)
	for _, child := range children {
		if !slices.Contains(names, child) {
			require.NoError(t, client.Delete(t.Context(), "/view/"+child))
		}
	}
}

// putItem has a later item stand before one of the same name as the earlier one.
func putItem(t *testing.T, client *framework.Framework, content string) {
	items := []string{"/view/qn-0000000005"}
	if content == later {
		items = append(items, "/view/qn-0000000003")
	}
	for _, item := range items {
		must.Get(client.Create(t.Context(), item, []byte(content), framework.CreatingParentsIfNeeded(), framework.OrSetData()))(t)
	}
	if content == later {
		require.NoError(t, client.Set(t.Context(), items[0], []byte("behind")))
	}
}

func openCache(t *testing.T, client *framework.Framework, path string, opts ...any) seen {
	told := new(atomic.Int64)
	c := startCache(t, client, path, append(opts, func(e cache.Event) {
		if e.Path == "/view/node" {
			told.Add(1)
		}
	})...)
	return seen{told: told, shows: func() string {
		if data, found := c.Get("/view/node"); found {
			return string(data.Data)
		}
		return ""
	}, check: func() {
		data, found := c.Get("/view/node")
		require.True(t, found)
		requireCurrent(t, client, "/view/node", data.Stat)
	}}
}

// startCache returns a full cache with these options and listeners.
func startCache(t *testing.T, client *framework.Framework, path string, opts ...any) *cache.CuratorCache {
	var settings []cache.Option
	var listeners []func(cache.Event)
	for _, opt := range opts {
		switch opt := opt.(type) {
		case cache.Option:
			settings = append(settings, opt)
		case func(cache.Event):
			listeners = append(listeners, opt)
		}
	}
	c := must.Get(cache.NewCuratorCache(client, path, settings...))(t)
	for _, listener := range listeners {
		c.Listen(listener)
	}
	require.NoError(t, c.Start())
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Fresh(t.Context()))
	return c
}

// requireCurrent asks that a Stat is the servers', but for what no event reports.
func requireCurrent(t *testing.T, client *framework.Framework, path string, have framework.Stat) {
	now := must.Get(client.Exists(t.Context(), path))(t)
	have.Pzxid, have.Cversion, have.NumChildren, have.Aversion = now.Pzxid, now.Cversion, now.NumChildren, now.Aversion
	require.Equal(t, *now, have)
}

// loop runs a loop over states. It ends with the test.
func loop[T any](t *testing.T, states func(context.Context) iter.Seq2[T, error], content func(T) string) seen {
	ctx, cancel := context.WithCancel(context.Background())
	var newest atomic.Value
	told, first, ended := new(atomic.Int64), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for state, err := range states(ctx) {
			if err != nil {
				continue // of an outage, or of the end
			}
			newest.Store(content(state))
			if told.Add(1) == 1 {
				close(first)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	<-first
	return seen{shows: func() string { return newest.Load().(string) }, told: told}
}

// begins is one way in which servers begin again.
type begins struct {
	name        string
	sameSession bool // that the client keeps
	again       func(w *world, content string)
}

// world is a server that begins again, on a fake clock, and its clients.
type world struct {
	*testing.T
	server *zkserver.Server
	put    func(*testing.T, *framework.Framework, string)
	client *framework.Framework
	view   seen
	told   int64 // when the server stopped
}

func newWorld(t *testing.T, version string, put func(*testing.T, *framework.Framework, string)) *world {
	server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(version))
	return &world{T: t, server: server, put: put}
}

// script has a client of its own put a content, if any, after so many other writes.
func (w *world) script(server *zkserver.Server, others int, content string) {
	client := must.Get(framework.Connect(w.Context(), "memory:2181", framework.WithDialer(server.Dial)))(w)
	for range others {
		must.Get(client.Create(w.Context(), "/others", nil, framework.OrSetData()))(w)
	}
	if content != "" {
		w.put(w.T, client, content)
	}
	require.NoError(w, client.Close())
}

// restore has the server stop, and start again with a backup.
func (w *world) restore(b *zkserver.Backup, epoch int32) {
	synctest.Wait()
	w.told = w.view.count()
	require.NoError(w, w.server.Stop())
	require.NoError(w, w.server.Restore(b, epoch))
	require.NoError(w, w.server.Restart())
}

// lose puts a content that no backup has, and that the client sees.
func (w *world) lose() {
	w.script(w.server, 0, "lost")
	must.Get(w.client.Exists(w.Context(), "/"))(w)
}

// wipe has the server begin empty, with a content that a script has put there in the meantime.
func (w *world) wipe(others int, content string) {
	other := zktest.NewServer(w, zkserver.WithoutListener())
	w.script(other, others, content)
	w.restore(other.Backup(), 0)
}

// before is how many writes come before the first content.
const before = 20

var beginnings = []begins{
	{"wiped, with equal numbers", false, func(w *world, content string) { w.wipe(before, content) }},
	{"wiped, with lower numbers", false, func(w *world, content string) { w.wipe(1, content) }},
	{"wiped, with higher numbers", false, func(w *world, content string) { w.wipe(10*before, content) }},
	{"restored under another leader", true, func(w *world, content string) {
		// Nothing but the epoch shows it: the server has the session, and is not behind.
		backup := w.server.Backup()
		w.lose()
		w.restore(w.backupWith(backup, content), 1)
	}},
	{"restored standalone, and ahead when the client comes back", true, func(w *world, content string) {
		backup := w.server.Backup()
		w.lose()
		w.restore(backup, 0)
		time.Sleep(2 * time.Second) // in which the server hangs up on the client
		w.script(w.server, 0, content)
		w.script(w.server, 5, "")
	}},
}

// wipes are those that end the session.
var wipes = beginnings[:3]

// backupWith returns a backup with another content.
func (w *world) backupWith(b *zkserver.Backup, content string) *zkserver.Backup {
	other := zktest.NewServer(w, zkserver.WithoutListener())
	require.NoError(w, other.Stop())
	require.NoError(w, other.Restore(b, 0))
	require.NoError(w, other.Restart())
	w.script(other, 0, content)
	return other.Backup()
}

// TestHistoriesViewShowsWhatServersHaveThatBeganAgain: what a client knows is compared by numbers within
// one history of the servers only. Time stands still while contents are put, so that two
// histories can agree in all numbers and times.
func TestHistoriesViewShowsWhatServersHaveThatBeganAgain(t *testing.T) {
	for _, v := range views {
		for _, b := range beginnings {
			for _, content := range []string{earlier, later} {
				for _, version := range []string{"3.8.0", "3.5.9"} {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", v.name, b.name, strings.Trim(content, `"`), version), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { testView(t, v, b, content, version) })
					})
				}
			}
		}
	}
}

func testView(t *testing.T, v view, b begins, content, version string) {
	w := newWorld(t, version, v.put)
	w.script(w.server, before, earlier)
	w.client = zktest.Client(t, w.server, framework.WithSessionTimeout(10*time.Second))
	session := w.client.Session()
	w.view = v.open(t, w.client)

	b.again(w, content)
	time.Sleep(20 * time.Second) // more than a session timeout, and the pauses of retries
	synctest.Wait()

	require.Equal(t, b.sameSession, w.client.Session() == session, "the session of the client goes on")
	require.Equal(t, content, w.view.shows())
	news := w.view.count() - w.told
	switch {
	case w.view.told == nil:
	case b.sameSession, content != earlier, v.statIsNews && b.name != beginnings[0].name:
		require.Equal(t, int64(1), news)
	default:
		require.Zero(t, news)
	}
	if w.view.check != nil {
		w.view.check()
	}
}

func (s seen) count() int64 {
	if s.told == nil {
		return 0
	}
	return s.told.Load()
}

// TestHistoriesViewsOnZooKeeperThatBeginsAgain has all views at once on real servers.
func TestHistoriesViewsOnZooKeeperThatBeginsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ZooKeeper")
	}
	t.Run("wiped, with equal numbers", func(t *testing.T) {
		servers := zktest.NewEnsemble(t, 1)
		proxy := zktest.NewProxy(t, servers)
		putAll(t, servers, earlier)
		shown := openAll(t, zktest.Client(t, proxy, framework.WithSessionTimeout(4*time.Second)))

		proxy.Refuse(true)
		proxy.Cut()
		require.NoError(t, servers.Server(0).Stop())
		require.NoError(t, os.RemoveAll(filepath.Join(servers.Server(0).DataDir(), "version-2")))
		require.NoError(t, servers.Restart(t.Context()))
		putAll(t, servers, later)
		proxy.Refuse(false)

		requireAll(t, shown, later)
	})
	// The leader that is elected after the restore has an epoch of its own. So servers that have the
	// session accept it, and the client finds that they are not what they were.
	t.Run("restored under another leader", func(t *testing.T) {
		servers := zktest.NewEnsemble(t, 3)
		putAll(t, servers, earlier)
		client := zktest.Client(t, servers, framework.WithSessionTimeout(time.Minute))
		shown := openAll(t, client)
		backups := t.TempDir()
		eachData(t, servers, func(id, data string) {
			require.NoError(t, os.CopyFS(filepath.Join(backups, id), os.DirFS(data)))
		})
		putAll(t, servers, "lost")
		must.Get(client.Exists(t.Context(), "/"))(t)
		requireAll(t, shown[:1], "lost")

		eachData(t, servers, func(id, data string) {
			require.NoError(t, os.RemoveAll(data))
			require.NoError(t, os.CopyFS(data, os.DirFS(filepath.Join(backups, id))))
			// As package fence says, or the epoch of what was lost would come again.
			for _, file := range []string{"acceptedEpoch", "currentEpoch"} {
				require.NoError(t, os.WriteFile(filepath.Join(data, file), []byte("70"), 0o600))
			}
		})
		requireAll(t, shown, earlier)
		require.EqualValues(t, 71, putAll(t, servers, earlier)>>32, "the epoch of the transactions that follow")
	})
}

// in returns a client's view of the folder of a view.
func in(t *testing.T, client *framework.Framework, v view) *framework.Framework {
	t.Helper()
	named := must.Get(client.UsingNamespace(strings.ReplaceAll(v.name, " ", "-")))(t)
	return named
}

// putAll has a client of its own put a content for all views, and returns its last transaction.
func putAll(t *testing.T, servers *ensemble.Ensemble, content string) int64 {
	t.Helper()
	client := must.Get(framework.Connect(t.Context(), servers.ConnectString()))(t)
	for _, v := range views {
		v.put(t, in(t, client, v), content)
	}
	var stat framework.Stat
	must.Get(client.Create(t.Context(), "/last", nil, framework.OrSetData(), framework.StoringStatIn(&stat)))(t)
	require.NoError(t, client.Close())
	return stat.Mzxid
}

// openAll opens all views. They are told apart by their place.
func openAll(t *testing.T, client *framework.Framework) []seen {
	t.Helper()
	all := make([]seen, len(views))
	for i, v := range views {
		all[i] = v.open(t, in(t, client, v))
	}
	return all
}

func requireAll(t *testing.T, shown []seen, content string) {
	t.Helper()
	for i, s := range shown {
		require.Eventually(t, func() bool { return s.shows() == content }, time.Minute, 50*time.Millisecond, "%s shows %s", views[i].name, content)
		if s.check != nil && content != "lost" {
			s.check()
		}
	}
}

// eachData stops the servers, calls fn with the id and the data folder of each, and starts them.
func eachData(t *testing.T, servers *ensemble.Ensemble, fn func(id, data string)) {
	t.Helper()
	for _, s := range servers.Servers() {
		require.NoError(t, s.Stop())
	}
	for _, s := range servers.Servers() {
		fn(strconv.Itoa(s.ID()), filepath.Join(s.DataDir(), "version-2"))
	}
	require.NoError(t, servers.Restart(t.Context()))
}

// eachBeginning runs the test for each way in which servers begin again. The client is
// connected before, and the content that was put is earlier.
func eachBeginning(
	t *testing.T, beginnings []begins, put func(*testing.T, *framework.Framework, string), test func(w *world, again func(content string)),
) {
	t.Helper()
	for _, b := range beginnings {
		t.Run(b.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "3.8.0", put)
				w.script(w.server, before, earlier)
				w.client = zktest.Client(t, w.server, framework.WithSessionTimeout(10*time.Second))
				test(w, func(content string) {
					b.again(w, content)
					time.Sleep(20 * time.Second)
				})
			})
		})
	}
}

// A persistent node on servers that were restored has its newest data again.
func TestHistoriesNodeIsRestoredToItsNewestData(t *testing.T) {
	eachBeginning(t, beginnings, putNode, func(w *world, again func(string)) {
		node := must.Get(nodes.NewPersistentNode(w.client, "/view/node", framework.Persistent, []byte("mine")))(w)
		require.NoError(w, node.Start())
		w.Cleanup(func() { require.NoError(w, node.Close()) })
		require.NoError(w, node.WaitForInitialCreate(w.Context()))
		require.NoError(w, node.SetData(w.Context(), []byte("my newest")))

		again(earlier)
		synctest.Wait()

		require.Equal(w, "my newest", string(must.Get(w.client.Get(w.Context(), "/view/node"))(w)))
		require.NoError(w, node.Err())
	})
}

// A change that was computed from what was read does not replace what other servers have, even if
// that has the same version. It begins again.
func TestHistoriesChangeIsMadeOfWhatTheServersHave(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *world, during func()) (from string)
	}{
		{"atomic", func(w *world, during func()) string {
			value := must.Get(counters.NewDistributedAtomicValue(w.client, "/view/node"))(w)
			changed := must.Get(value.Update(w.Context(), func([]byte) ([]byte, error) { during(); return []byte("changed"), nil }))(w)
			return string(changed.Pre)
		}},
		{"typed", func(w *world, during func()) (from string) {
			node := must.Get(typed.NewNode(w.client, "/view/node", typed.JSON[string]()))(w)
			require.NoError(w, node.Update(w.Context(), func(s *string) error {
				from = strconv.Quote(*s)
				during()
				*s = "changed"
				return nil
			}))
			return from
		}},
		{"shared", func(w *world, during func()) (from string) {
			v := must.Get(shared.NewSharedValue(w.client, "/view/node", nil))(w)
			require.NoError(w, v.Start(w.Context()))
			w.Cleanup(func() { require.NoError(w, v.Close()) })
			for ok := false; !ok; {
				known := v.VersionedValue()
				from = string(known.Value)
				during()
				ok = must.Get(v.TrySetValue(w.Context(), known, []byte("changed")))(w)
			}
			return from
		}},
	} {
		changed := func(w *world, during func()) {
			require.Equal(w, later, c.change(w, sync.OnceFunc(during)))
			require.Contains(w, string(must.Get(w.client.Get(w.Context(), "/view/node"))(w)), "changed")
		}
		t.Run(c.name, func(t *testing.T) {
			eachBeginning(t, wipes, putNode, func(w *world, again func(string)) {
				changed(w, func() { again(later) })
			})
			t.Run("restored with the session", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, "3.8.0", putNode)
					w.client = zktest.Client(t, w.server)
					backup, session := w.server.Backup(), w.client.Session()
					w.script(w.server, before, earlier)
					// The write is the first request that meets the restored servers.
					changed(w, func() { w.restore(w.backupWith(backup, later), 1); synctest.Wait() })
					require.Equal(t, session, w.client.Session())
				})
			})
		})
	}
}

// What a session has deleted may come back with restored servers. It would stay for as long as the session, so
// the session ends, and with it all that came back.
func TestHistoriesEndedTurnsDoNotComeBack(t *testing.T) {
	for name, turn := range map[string]func(ctx context.Context, client *framework.Framework, during func()) error{
		"mutex": func(ctx context.Context, client *framework.Framework, during func()) error {
			m, err := locks.NewInterProcessMutex(client, "/turns")
			if err != nil {
				return err
			}
			return m.Do(ctx, func(context.Context) error { during(); return nil })
		},
		"semaphore": func(ctx context.Context, client *framework.Framework, during func()) error {
			s, err := locks.NewInterProcessSemaphoreV2(client, "/turns", locks.FixedLeases(1))
			if err != nil {
				return err
			}
			lease, err := s.Acquire(ctx)
			if err != nil {
				return err
			}
			during()
			return lease.Release(ctx)
		},
		"election": func(ctx context.Context, client *framework.Framework, during func()) error {
			latch, err := leader.NewLeaderLatch(client, "/turns")
			if err != nil {
				return err
			}
			if err := latch.Start(); err != nil {
				return err
			}
			if _, err = latch.Await(ctx); err == nil {
				during()
			}
			return errors.Join(err, latch.Close())
		},
		"own znode": func(ctx context.Context, client *framework.Framework, during func()) error {
			if _, err := client.Create(ctx, "/turns", nil, framework.WithMode(framework.Ephemeral)); err != nil {
				return err
			}
			during()
			return client.Delete(ctx, "/turns")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "3.8.0", putNode)
				w.client = zktest.Client(t, w.server)
				other := zktest.Client(t, w.server)
				var backup *zkserver.Backup
				require.NoError(t, turn(t.Context(), w.client, func() { backup = w.server.Backup() }))
				ended := w.client.Session()
				w.restore(backup, 1)
				time.Sleep(ended.Timeout() / 4) // both clients are back
				ctx, cancel := context.WithTimeout(t.Context(), ended.Timeout()/2)
				defer cancel()
				require.NoError(t, turn(ctx, other, func() {}))
				require.NoError(t, turn(ctx, w.client, func() {}))
				require.Error(t, ended.Err())
				require.NotEqual(t, ended.ID(), w.client.Session().ID())

				// Another leader alone ends no session.
				session, history := w.client.Session(), w.client.History()
				must.Get(w.client.Create(ctx, "/alive", nil, framework.WithMode(framework.EphemeralSequential)))(t)
				w.restore(w.server.Backup(), 2)
				synctest.Wait()
				require.NoError(t, turn(ctx, w.client, func() {}))
				require.Equal(t, session, w.client.Session())
				require.Greater(t, w.client.History(), history)
			})
		})
	}
}

// Fresh waits until a cache has read all data again.
func TestHistoriesFreshIsOfTheServersThatBeganAgain(t *testing.T) {
	for _, version := range []string{"3.8.0", "3.5.9"} {
		for _, b := range beginnings {
			t.Run(version+"/"+b.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, version, putNode)
					w.script(w.server, before, earlier)
					w.client = zktest.Client(t, w.server, framework.WithSessionTimeout(10*time.Second), framework.WithRetryPolicy(retry.Forever(time.Second)))
					c := startCache(t, w.client, "/view")
					b.again(w, later)
					require.NoError(t, c.Fresh(t.Context()))
					data, found := c.Get("/view/node")
					require.True(t, found)
					require.Equal(t, later, string(data.Data))
				})
			})
		}
	}
}

// A cache reads data that was too large again, as it may be other data.
func TestHistoriesCacheTriesDataThatWasTooLargeAgain(t *testing.T) {
	put := func(t *testing.T, client *framework.Framework, content string) {
		if content == earlier {
			content = strings.Repeat(content, 10_000)
		}
		putNode(t, client, content)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "3.8.0", put)
		w.script(w.server, before, earlier)
		w.client = zktest.Client(t, w.server, framework.WithSessionTimeout(10*time.Second), framework.WithMaxReplySize(10_000))
		w.view = openCache(t, w.client, "/view")
		require.Empty(t, w.view.shows())
		w.wipe(before, later)
		time.Sleep(20 * time.Second)
		require.Equal(t, later, w.view.shows())
	})
}

// A member of a double barrier whose round was lost does not wait for strangers of other rounds,
// whatever their numbers.
func TestHistoriesMemberLeavesARoundThatWasLost(t *testing.T) {
	put := func(t *testing.T, client *framework.Framework, content string) {
		names := []string{"one", "two"}
		if content != earlier {
			names = append(names, "ready")
		}
		for _, name := range names { // of strangers who stay
			_, err := client.Create(t.Context(), "/view/"+name, nil, framework.CreatingParentsIfNeeded())
			if !errors.Is(err, framework.ErrNodeExists) {
				require.NoError(t, err)
			}
		}
	}
	eachBeginning(t, wipes, put, func(w *world, again func(string)) {
		member := must.Get(barriers.NewDistributedDoubleBarrier(w.client, "/view", 3))(w)
		require.NoError(w, member.Enter(w.Context()))

		again(later)

		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		require.NoError(w, member.Leave(ctx))
	})
}

// A member that waits while servers are restored that have its session, but not its node, has a
// node again.
func TestHistoriesMemberThatWaitsIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "3.8.0", putNode)
		w.client = zktest.Client(t, w.server, framework.WithSessionTimeout(10*time.Second))
		session := w.client.Session()
		member := must.Get(barriers.NewDistributedDoubleBarrier(w.client, "/barrier", 2))(t)
		backup := w.server.Backup()
		entered := make(chan error, 1)
		go func() { entered <- member.Enter(t.Context()) }()

		w.restore(backup, 1)
		time.Sleep(time.Minute)
		other := must.Get(barriers.NewDistributedDoubleBarrier(zktest.Client(t, w.server), "/barrier", 2))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, other.Enter(ctx))
		require.NoError(t, <-entered)
		require.Equal(t, session, w.client.Session())
	})
}

// A consumer goes on with the first item that the servers have.
func TestHistoriesConsumerGoesOnWithTheFirstItem(t *testing.T) {
	put := func(t *testing.T, client *framework.Framework, content string) {
		q := must.Get(queues.NewDistributedQueue(client, "/view"))(t)
		for _, item := range []string{"first", "second"} {
			require.NoError(t, q.Put(t.Context(), []byte(item+" of "+content)))
		}
	}
	eachBeginning(t, wipes, put, func(w *world, again func(string)) {
		q := must.Get(queues.NewDistributedQueue(w.client, "/view"))(w)
		var items []string
		for item, err := range q.Items(w.Context()) {
			require.NoError(w, err)
			if items = append(items, string(item.Data)); len(items) == 2 {
				break
			}
			again(later)
		}
		require.Equal(w, []string{"first of " + earlier, "first of " + later}, items)
	})
}
