// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestInspectMutexIsSeenAsItsParticipantsSay: the queue is read without the lock, and is the same.
func TestInspectMutexIsSeenAsItsParticipantsSay(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/report", locks.WithLabel("nightly"), locks.WithoutReentry()))(t)
		lease := hold(t, mutex)
		for n := range 3 {
			contend(t, mutex)
			awaitChildren(t, client, "/locks/report", n+2)
		}
		put(t, client, "/locks/report/README", "/locks/report/lock-1")
		want := must.Get(mutex.Participants(t.Context()))(t)

		r := only(t, client, "/locks/report")
		require.Equal(t, inspect.Mutex, r.Kind)
		require.Equal(t, want, r.Participants)
		require.Equal(t, []int{1, 3}, []int{r.Holders, r.Waiters})
		require.Equal(t, []string{"README", "lock-1"}, r.Foreign)
		require.Equal(t, lease.Token(), r.OldestHold().Token)
		require.Equal(t, "curator", inspect.Client(*r.OldestHold()))
		require.Equal(t, want[1], *r.LongestWait())

		heads := only(t, client, "/locks/report", inspect.HeadsOnly())
		require.Equal(t, want[:2], heads.Participants)
		require.Equal(t, []int{1, 3}, []int{heads.Holders, heads.Waiters})
	})
}

// TestInspectReadWriteLockIsSeenAsItsParticipantsSay, with a reader in place of its writer.
func TestInspectReadWriteLockIsSeenAsItsParticipantsSay(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		lock := must.Get(locks.NewInterProcessReadWriteLock(client, "/locks/rw"))(t)
		check := func() inspect.Recipe {
			want := must.Get(lock.Participants(t.Context()))(t)
			r := only(t, client, "/locks/rw")
			require.Equal(t, inspect.ReadWrite, r.Kind)
			require.Equal(t, want, r.Participants)
			return r
		}
		writer := hold(t, lock.WriteLock())
		reader := must.Get(lock.ReadLock().Acquire(writer.Context(zktest.Context(t))))(t)
		r := check()
		require.Equal(t, []int{2, 0}, []int{r.Holders, r.Waiters})

		contend(t, lock.ReadLock())
		awaitChildren(t, client, "/locks/rw", 3)
		contend(t, lock.WriteLock())
		awaitChildren(t, client, "/locks/rw", 4)
		contend(t, lock.ReadLock())
		awaitChildren(t, client, "/locks/rw", 5)
		r = check()
		require.Equal(t, []int{2, 3}, []int{r.Holders, r.Waiters})

		require.NoError(t, writer.Release(t.Context()))
		awaitChildren(t, client, "/locks/rw", 4)
		r = check()
		require.Equal(t, []int{2, 2}, []int{r.Holders, r.Waiters})
		require.NoError(t, reader.Release(t.Context()))
	})
}

// TestInspectSemaphoreAndItsMaximum: it is not written down, and seen while somebody waits.
func TestInspectSemaphoreAndItsMaximum(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		semaphore := must.Get(locks.NewInterProcessSemaphoreV2(client, "/locks/sem", locks.FixedLeases(2)))(t)
		hold(t, semaphore)
		r := only(t, client, "/locks/sem")
		require.Equal(t, inspect.Semaphore, r.Kind)
		require.Equal(t, []int{1, 0, 0}, []int{r.Holders, r.Waiters, r.MaxLeases})

		hold(t, semaphore)
		contend(t, semaphore)
		awaitChildren(t, client, "/locks/sem/leases", 3)
		contend(t, semaphore)
		awaitChildren(t, client, "/locks/sem/locks", 2)
		for _, opts := range [][]inspect.Option{nil, {inspect.HeadsOnly()}, {inspect.WithMaxLeases(2)}} {
			r = only(t, client, "/locks/sem", opts...)
			require.Equal(t, []int{2, 2, 2}, []int{r.Holders, r.Waiters, r.MaxLeases}, "%d", len(opts))
		}
		require.Len(t, r.Participants, 5)
		require.Equal(t, must.Get(semaphore.Participants(t.Context()))(t), r.Participants[:3])
		require.Equal(t, []string{r.Participants[3].Path}, r.Participants[4].WaitsFor)

		e := must.Get(inspect.Explain(t.Context(), client, "/locks/sem"))(t)
		require.Equal(t, 2, strings.Count(e.Findings[0].Text, " holds a permit since "), e.Findings[0].Text)
		require.Equal(t, 2, strings.Count(e.Findings[0].Text, " waits for "), "the permit is not told beside the turn: %s", e.Findings[0].Text)

		put(t, client, "/locks/sem/leases/foreign")
		require.Equal(t, []string{"leases/foreign"}, only(t, client, "/locks/sem").Foreign)
		survey := must.Get(inspect.Walk(t.Context(), client, "/"))(t)
		require.Len(t, survey.Recipes, 1, "neither of its folders is a lock of its own")
		require.Equal(t, only(t, client, "/locks/sem"), survey.Recipes[0])
	})
}

// TestInspectFoldersOfASemaphoreThatIsNone: names that other things have, too.
func TestInspectFoldersOfASemaphoreThatIsNone(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	put(t, client, "/app/locks/report", "/app/leases/office", "/idle/locks", "/idle/leases")
	mutex := must.Get(locks.NewInterProcessMutex(client, "/app/locks/report"))(t)
	hold(t, mutex)
	survey := must.Get(inspect.Walk(t.Context(), client, "/"))(t)
	require.Len(t, survey.Recipes, 2)
	require.Equal(t, "/app/locks/report mutex", survey.Recipes[0].Path+" "+string(survey.Recipes[0].Kind))
	require.Equal(t, inspect.Recipe{Path: "/idle", Kind: inspect.Semaphore}, survey.Recipes[1])
}

// TestContendersOfOtherClients: zk.Lock and kazoo, by the names that they give their nodes.
func TestContendersOfOtherClients(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	require.NoError(t, zk.NewLock(newZKConn(t, server.Addr()), "/locks/old", framework.OpenACL()).Lock())
	mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/old"))(t)
	contend(t, mutex)
	awaitChildren(t, client, "/locks/old", 2)
	r := only(t, client, "/locks/old")
	require.Equal(t, []int{1, 1}, []int{r.Holders, r.Waiters})
	require.Equal(t, []string{"zk.Lock", "curator"}, []string{inspect.Client(r.Participants[0]), inspect.Client(r.Participants[1])})
	require.Equal(t, []string{r.Participants[0].Path}, r.Participants[1].WaitsFor)

	const uuid = "0c8f7ab1f7a54ad3b8cb1b1c4ef2bd3"
	putAs(t, client, framework.Ephemeral, "/python/rw/"+uuid+"1__rlock__0000000001", "/python/rw/"+uuid+"2__rlock__0000000002",
		"/python/rw/"+uuid+"3__lock__0000000003", "/python/rw/"+uuid+"4__rlock__0000000004")
	r = only(t, client, "/python/rw")
	require.Equal(t, inspect.KazooLock, r.Kind)
	require.Equal(t, []int{2, 2}, []int{r.Holders, r.Waiters})
	require.Equal(t, "kazoo", inspect.Client(r.Participants[0]))
	require.Equal(t, []string{r.Participants[2].Path}, r.Participants[3].WaitsFor)
	require.Equal(t, []string{r.Participants[1].Path}, r.Participants[2].WaitsFor)

	put(t, client, "/python/sem")
	putAs(t, client, framework.Ephemeral, "/python/sem/"+uuid+"a", "/python/sem/"+uuid+"9", "/python/sem-__lock__/"+uuid+"b__lock__0000000007")
	require.NoError(t, client.Set(t.Context(), "/python/sem", []byte("2")))
	r = only(t, client, "/python/sem")
	require.Equal(t, inspect.KazooSemaphore, r.Kind)
	require.Equal(t, []int{2, 1, 2}, []int{r.Holders, r.Waiters, r.MaxLeases})
	require.Equal(t, "/python/sem/"+uuid+"a", r.Participants[0].Path, "in the order in which they were acquired")
	require.Len(t, must.Get(inspect.Walk(t.Context(), client, "/python"))(t).Recipes, 2)
}

// TestInspectEverythingElse: elections, queues, barriers and services.
func TestInspectEverythingElse(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		ctx := zktest.Context(t)
		latch := must.Get(leader.NewLeaderLatch(client, "/election", leader.WithID("one")))(t)
		require.NoError(t, latch.Start())
		t.Cleanup(func() { require.NoError(t, latch.Close()) })
		must.Get(latch.Await(ctx))(t)
		r := only(t, client, "/election")
		require.Equal(t, inspect.LeaderLatch, r.Kind)
		require.Equal(t, []int{1, 0}, []int{r.Holders, r.Waiters})
		require.Equal(t, "one", r.Participants[0].Identity)

		queue := must.Get(queues.NewSimpleDistributedQueue(client, "/queue"))(t)
		require.NoError(t, queue.Offer(ctx, []byte("work")))
		require.NoError(t, queue.Offer(ctx, []byte("more")))
		require.Equal(t, inspect.Recipe{Path: "/queue", Kind: inspect.Queue, Items: 2}, only(t, client, "/queue"))

		barrier := must.Get(barriers.NewDistributedDoubleBarrier(client, "/barrier", 1))(t)
		require.NoError(t, barrier.Enter(ctx))
		r = only(t, client, "/barrier")
		require.Equal(t, inspect.DoubleBarrier, r.Kind)
		require.Equal(t, []int{1, 0}, []int{r.Holders, r.Waiters})
		require.NoError(t, barrier.Leave(ctx))

		// What a member that waits for others has created, and an instance of a service.
		const uuid = "0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd3"
		must.Get(client.Create(ctx, "/waiting/"+uuid+"0", nil, framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))(t)
		r = only(t, client, "/waiting")
		require.Equal(t, inspect.DoubleBarrier, r.Kind)
		require.Equal(t, []int{0, 1}, []int{r.Holders, r.Waiters})
		services := must.Get(discovery.NewServiceDiscovery[any](client, "/services", nil))(t)
		t.Cleanup(func() { require.NoError(t, services.Close()) })
		require.NoError(t, services.Register(ctx, discovery.NewInstance[any]("web", "10.0.0.7", 8080)))
		r = only(t, client, "/services/web")
		require.Equal(t, inspect.Service, r.Kind)
		require.Equal(t, []int{1, 0, 0}, []int{r.Items, r.Holders, r.Waiters})
		require.Contains(t, r.Participants[0].Identity, "10.0.0.7")
	})
}

// TestPartitionsAndTheirLocks: a group is seen, and each partition as the lock that it is.
func TestPartitionsAndTheirLocks(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	member := must.Get(partition.New(client, "/jobs", partition.Fixed("a", "b"), partition.WithID("m")))(t)
	ctx, cancel := context.WithCancel(t.Context())
	held, ended := make(chan string, 2), make(chan error, 1)
	go func() {
		ended <- member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
			held <- p.Name
			<-ctx.Done()
			return nil
		})
	}()
	for range 2 {
		zktest.Await(t, held, "a partition")
	}
	put(t, client, "/jobs/README")
	require.NoError(t, partition.Pin(t.Context(), client, "/jobs", "a", "m")) // the znode of orders is the group's
	group := only(t, client, "/jobs")
	require.Equal(t, inspect.Partitions, group.Kind)
	require.False(t, group.Kind.IsLock())
	require.Equal(t, []int{2, 0, 0}, []int{group.Items, group.Holders, group.Waiters})
	require.Equal(t, []string{"README"}, group.Foreign)
	require.Len(t, group.Participants, 1)
	require.Equal(t, "/jobs/members/m", group.Participants[0].Path)
	survey := must.Get(inspect.Walk(t.Context(), client, "/"))(t)
	var paths []string
	for _, r := range survey.Recipes {
		paths = append(paths, r.Path)
	}
	require.Equal(t, []string{"/jobs", "/jobs/locks/a", "/jobs/locks/b"}, paths)
	cancel()
	require.ErrorIs(t, zktest.Await(t, ended, "the end"), context.Canceled)
}

// TestFleetOfJobsAndItsLocks: a fleet is seen with and without its replica, also where there is little room for what
// is read, and Explain says what is wrong with its jobs.
func TestFleetOfJobsAndItsLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		jobs := make([]schedule.Job, 0, 3)
		for _, name := range []string{"fails", "paused", "works"} {
			jobs = append(jobs, schedule.Job{Name: name, Schedule: schedule.Every(time.Minute), Run: func(context.Context, schedule.Tick) error {
				if name == "fails" {
					return errors.New("the database is away")
				}
				return nil
			}})
		}
		s := must.Get(schedule.New(client, "/cron", jobs...))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(20 * time.Minute) // the histories are long
		require.NoError(t, schedule.Pause(t.Context(), client, "/cron", "paused"))
		must.Get(client.Create(t.Context(), "/cron/jobs/garbage/state", []byte("{{"), framework.CreatingParentsIfNeeded()))(t)
		put(t, client, "/cron/README", "/app/jobs/a/state", "/app/jobs/b", "/other/jobs")

		for _, opts := range [][]inspect.Option{nil, {inspect.HeadsOnly(), inspect.WithMemoryLimit(1 << 20)}} {
			fleet := only(t, client, "/cron", opts...)
			require.Equal(t, inspect.Recipe{Path: "/cron", Kind: inspect.Jobs, Items: 4, Foreign: []string{"README"}}, fleet)
			survey := must.Get(inspect.Walk(t.Context(), client, "/", opts...))(t)
			kinds := make(map[string]inspect.Kind)
			for _, r := range survey.Recipes {
				kinds[r.Path] = r.Kind
			}
			require.Equal(t, inspect.Jobs, kinds["/cron"])
			require.Equal(t, inspect.Mutex, kinds["/cron/jobs/works/lock"])
			require.NotContains(t, kinds, "/app")
			require.Len(t, kinds, 1+3, "the fleet and its locks: %v", kinds)
		}
		explained := must.Get(inspect.Explain(t.Context(), client, "/cron"))(t)
		require.False(t, explained.Trouble())
		text := explained.String()
		require.Contains(t, text, "/cron is a fleet with jobs on a schedule: 4 jobs. fails: failing (20 ticks have failed since one succeeded, "+
			`the last run with "the database is away"). garbage: `)
		require.Contains(t, text, "paused: paused.")
		require.NotContains(t, text, "works:")
		require.Contains(t, text, "curatorctl jobs /cron\n")

		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		time.Sleep(10 * time.Minute) // the folders of its groups go
		require.Equal(t, 4, only(t, client, "/cron").Items)
		explained = must.Get(inspect.Explain(t.Context(), client, "/cron"))(t)
		require.Contains(t, explained.String(), "works: no replica has it.")
	})
}

// TestInspectItemsOfAllQueues are counted, and the folders of a sharder are no items.
func TestInspectItemsOfAllQueues(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	const digits, letters = "/sharded/queue-0c8f7ab1-f7a5-4ad3-b8cb-1b1234567890", "/sharded/queue-0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd31"
	put(t, client, "/sharded", digits, letters, digits+"/queue-0000000003", letters+"/queue-0000000004")
	put(t, client, "/all/queue-0000000000", "/all/queue--2147483648", "/all/queue-1000000050000000002", "/all/queue-0FFFFFFFF0000000003",
		"/all/queue-|18BCFE56800|0000000004", "/all/queue-|a_b|0000000006", "/all/qn-0000000007",
		"/all/queue-x0000000008", "/all/queue-|0000000009", "/all/queue-2000000050000000010")
	survey := must.Get(inspect.Walk(t.Context(), client, "/"))(t)
	require.Equal(t, []inspect.Recipe{
		{Path: "/all", Kind: inspect.Queue, Items: 7, Foreign: []string{"queue-2000000050000000010", "queue-x0000000008", "queue-|0000000009"}},
		{Path: digits, Kind: inspect.Queue, Items: 1},
		{Path: letters, Kind: inspect.Queue, Items: 1},
	}, survey.Recipes)
}

// TestInspectFoldersNamedByUUIDsAreFolders: what lives in them is found.
func TestInspectFoldersNamedByUUIDsAreFolders(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	const uuid = "0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd3"
	mutex := must.Get(locks.NewInterProcessMutex(client, "/tenants/"+uuid+"0/lock"))(t)
	hold(t, mutex)
	put(t, client, "/tenants/"+uuid+"1")
	survey := must.Get(inspect.Walk(t.Context(), client, "/"))(t)
	require.Len(t, survey.Recipes, 1)
	require.Equal(t, mutex.Path(), survey.Recipes[0].Path)
	require.Empty(t, must.Get(inspect.At(t.Context(), client, "/tenants"))(t))
}

// TestInspectTwoKindsOnOnePath are both shown, each foreign to the other.
func TestInspectTwoKindsOnOnePath(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	putAs(t, client, framework.Ephemeral, "/both/_c_0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd30-lock-0000000001", "/both/_c_0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd31-__READ__0000000002")
	recipes := must.Get(inspect.At(t.Context(), client, "/both"))(t)
	require.Len(t, recipes, 2)
	for i, r := range recipes {
		require.Equal(t, []int{1, 0}, []int{r.Holders, r.Waiters}, "neither waits for the other")
		_, name := framework.SplitPath(recipes[1-i].Participants[0].Path)
		require.Equal(t, []string{name}, r.Foreign)
	}
}

// TestInspectJSON: keys in lower case, the session as text.
func TestInspectJSON(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/report"))(t)
	lease := hold(t, mutex)
	text := must.Get(json.Marshal(only(t, client, "/locks/report")))(t)
	require.Contains(t, string(text), `{"path":"/locks/report","kind":"mutex","holders":1,"waiters":0,"participants":[{"path":"/locks/report/_c_`)
	require.Contains(t, string(text), fmt.Sprintf(`"token":%d,`, lease.Token()))
	require.Contains(t, string(text), fmt.Sprintf(`"session":%q`, client.Session().String()))
	var back inspect.Recipe
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, lease.Token(), back.Participants[0].Token)
}

// TestInspectWhatMayNotBeRead is reported, and hides nothing else.
func TestInspectWhatMayNotBeRead(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	owner := zktest.Client(t, server, framework.WithAuth("digest", []byte("owner:secret")))
	mutex := must.Get(locks.NewInterProcessMutex(owner, "/locks/report"))(t)
	lease := hold(t, mutex)
	none := framework.ACL{Perms: framework.PermAll, Scheme: "auth"}
	put(t, client, "/secret/inside")
	require.NoError(t, owner.SetACL(t.Context(), lease.Path(), []framework.ACL{none}))
	require.NoError(t, owner.SetACL(t.Context(), "/secret", []framework.ACL{none}))

	survey := must.Get(inspect.Walk(t.Context(), client, "/"))(t)
	require.Equal(t, []string{"/secret"}, survey.Unreadable)
	require.Len(t, survey.Recipes, 1)
	r := survey.Recipes[0]
	require.Equal(t, 1, r.Holders, "its name is to be seen")
	require.Equal(t, lease.Path(), r.Participants[0].Path)
	require.True(t, r.Participants[0].Since.IsZero())
	require.Nil(t, r.OldestHold())
	_, err := inspect.At(t.Context(), client, "/secret")
	require.ErrorIs(t, err, framework.ErrNoAuth)
}

// TestInspectWhatALongWalkCosts: a list of locks takes three reads for each, however many wait, and
// few round trips for all of them.
func TestInspectWhatALongWalkCosts(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithVersion("3.5.10")) // where each read is a request
	client := zktest.Client(t, server)
	const folders, each = 300, 5
	var ops []framework.Op
	for i := range folders {
		for k := range each {
			name := fmt.Sprintf("_c_0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd3%d-lock-%010d", k, k)
			ops = append(ops, framework.CreateOp(fmt.Sprintf("/locks/l%d/%s", i, name), nil, framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))
		}
	}
	must.Get(client.Bulk(t.Context(), ops))(t)
	var requests atomic.Int64
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpPing {
			requests.Add(1)
		}
		return zkserver.Pass
	})
	defer remove()
	heads := must.Get(inspect.Walk(t.Context(), client, "/", inspect.HeadsOnly()))(t)
	require.EqualValues(t, 2+folders+2*folders, requests.Swap(0), "the folders, their children, and two contenders of each")
	all := must.Get(inspect.Walk(t.Context(), client, "/"))(t)
	require.EqualValues(t, 2+folders+each*folders, requests.Load())
	require.Len(t, all.Recipes, folders)
	require.Equal(t, 2+folders+each*folders, all.Nodes, "/locks and /zookeeper, too")
	for i, r := range heads.Recipes {
		require.Equal(t, []int{1, each - 1}, []int{r.Holders, r.Waiters})
		require.Equal(t, all.Recipes[i].Participants[:2], r.Participants)
	}
}

// TestInspectBadInput is refused before anything is sent.
func TestInspectBadInput(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	for says, call := range map[string]func() error{
		"invalid path":                         func() error { _, err := inspect.Walk(t.Context(), client, "a"); return err },
		"a nil option":                         func() error { _, err := inspect.At(t.Context(), client, "/a", nil); return err },
		"WithMaxLeases(0), expected 1 or more": func() error { _, err := inspect.At(t.Context(), client, "/a", inspect.WithMaxLeases(0)); return err },
		"WithMemoryLimit(1000), expected a megabyte": func() error {
			_, err := inspect.At(t.Context(), client, "/a", inspect.WithMemoryLimit(1000))
			return err
		},
		"LongerThan(0s), expected more than 0": func() error { _, err := inspect.Explain(t.Context(), client, "/a", inspect.LongerThan(0)); return err },
		"invalid path \"b\"": func() error {
			_, err := inspect.Explain(t.Context(), client, "/a", inspect.WithDeadlocks("b"))
			return err
		},
		"invalid path \"c\"": func() error { _, err := inspect.Deadlocks(t.Context(), client, "c"); return err },
	} {
		require.ErrorContains(t, call(), says)
	}
	const named = "inspect: framework: children /missing: zk: node does not exist"
	_, err := inspect.At(t.Context(), client, "/missing")
	require.ErrorIs(t, err, framework.ErrNoNode)
	require.EqualError(t, err, named, "the path is there once")
	_, err = inspect.Walk(t.Context(), client, "/missing")
	require.ErrorIs(t, err, framework.ErrNoNode)
	require.EqualError(t, err, named)
}

// TestTree: all znodes, parents first, in the order of a walk by hand.
func TestTree(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		put(t, client, "/a/b/c", "/a/b-", "/a/b0/d")
		require.NoError(t, client.Set(t.Context(), "/a/b/c", []byte("data")))
		nodes := must.Get(inspect.Tree(t.Context(), client, "/a"))(t)
		var paths []string
		for _, z := range nodes {
			require.NoError(t, z.Err)
			paths = append(paths, z.Path)
		}
		require.Equal(t, []string{"/a", "/a/b", "/a/b/c", "/a/b-", "/a/b0", "/a/b0/d"}, paths)
		require.Equal(t, "data", string(nodes[2].Data))
		require.EqualValues(t, 1, nodes[2].Stat.Version)

		require.NoError(t, client.SetACL(t.Context(), "/a/b", []framework.ACL{{Perms: framework.PermAdmin, Scheme: "world", ID: "anyone"}}))
		nodes = must.Get(inspect.Tree(t.Context(), client, "/a"))(t)
		require.Len(t, nodes, 5)
		require.ErrorIs(t, nodes[1].Err, framework.ErrNoAuth)
		_, err := inspect.Tree(t.Context(), client, "/missing")
		require.ErrorIs(t, err, framework.ErrNoNode)
		_, err = inspect.Tree(t.Context(), client, "a")
		require.ErrorContains(t, err, "invalid path")
	})
}

// TestWaitersForPermitsCount, those too whose nodes are not read. A client of another library may wait for a permit without
// a turn.
func TestWaitersForPermitsCount(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for i := range 5 {
		putAs(t, client, framework.Ephemeral, fmt.Sprintf("/sem/leases/_c_0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd3%d-lease-%010d", i, i))
	}
	for _, opts := range [][]inspect.Option{nil, {inspect.HeadsOnly()}} {
		r := only(t, client, "/sem", append(opts, inspect.WithMaxLeases(2))...)
		require.Equal(t, []int{2, 3}, []int{r.Holders, r.Waiters})
	}
}

// TestAMemoryLimit leaves out what does not fit, and says so: long data, folders with very many children, participants.
// What fits is the same as without a limit.
func TestAMemoryLimit(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/report", locks.WithLabel("nightly"), locks.WithoutReentry()))(t)
		hold(t, mutex)
		contend(t, mutex)
		awaitChildren(t, client, "/locks/report", 2)
		semaphore := must.Get(locks.NewInterProcessSemaphoreV2(client, "/locks/permits", locks.FixedLeases(2)))(t)
		permit := must.Get(semaphore.Acquire(t.Context()))(t)
		defer func() { require.NoError(t, permit.Release(context.Background())) }()
		const name = "_c_0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd3%d-lock-%010d"
		put(t, client, "/queue/queue-0000000001", "/empty")

		want := must.Get(inspect.Walk(t.Context(), client, "/"))(t)
		got := must.Get(inspect.Walk(t.Context(), client, "/", inspect.WithMemoryLimit(16<<20)))(t)
		want.Nodes, got.Nodes = 0, 0 // a server may delete the empty container of turns in between
		require.Equal(t, want, got)

		large := "/large/" + fmt.Sprintf(name, 0, 0)
		must.Get(client.Create(t.Context(), large, make([]byte, 500_000), framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))(t)
		r := only(t, client, "/large", inspect.WithMemoryLimit(1<<20))
		require.Equal(t, 1, r.Holders)
		require.Empty(t, r.Participants[0].Identity, "it is too long")
		require.NotZero(t, r.Participants[0].Token)
		require.False(t, r.Participants[0].Since.IsZero())

		if server.Name() == "zookeeper" { // the rest is about lists that look the same there
			return
		}
		var ops []framework.Op
		for i := range 20_000 {
			ops = append(ops, framework.CreateOp(fmt.Sprintf("/many/l%d", i), nil, framework.CreatingParentsIfNeeded()))
		}
		for i := range 10_000 {
			ops = append(ops, framework.CreateOp("/herd/"+fmt.Sprintf(name, i%10, i), nil, framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))
		}
		must.Get(client.Bulk(t.Context(), ops))(t)
		part := must.Get(inspect.Walk(t.Context(), client, "/", inspect.WithMemoryLimit(1<<20)))(t)
		require.True(t, part.Partial)
		require.Less(t, part.Nodes, 20_000)
		require.Greater(t, part.Nodes, 2_000, "some of the folders are there")
		r = only(t, client, "/herd", inspect.WithMemoryLimit(1<<20))
		require.Equal(t, []int{1, 9_999}, []int{r.Holders, r.Waiters}, "the counts are complete")
		require.Greater(t, len(r.Participants), 1000)
		require.Less(t, len(r.Participants), 9_000)
		require.True(t, r.Participants[0].Holds)
	})
}

// TestAMemoryLimitIsForWhatIsUnderWay, too: nothing but its reply says that a folder has one child with a name of 500 KB.
func TestAMemoryLimitIsForWhatIsUnderWay(t *testing.T) {
	const folders, longName, most = 100, 500_000, 16 << 20
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	putAs(t, client, framework.Ephemeral, "/locks/report/_c_0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd30-lock-0000000001")
	put(t, client, "/locks/long/"+strings.Repeat("m", 50_000))
	for i := range folders {
		put(t, client, fmt.Sprintf("/z/%03d/%s", i, strings.Repeat("n", longName)))
	}
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // it is no such number
	}
	before, peak, lists := inUse(), int64(0), 0
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpGetChildren2 {
			if lists++; lists%20 == 0 { // the replies to those before have been sent
				peak = max(peak, inUse()-before)
			}
		}
		return zkserver.Pass
	})
	survey, err := inspect.Walk(t.Context(), client, "/", inspect.WithMemoryLimit(2<<20))
	remove()
	require.NoError(t, err)
	require.True(t, survey.Partial)
	require.Len(t, survey.Recipes, 1)
	require.Less(t, survey.Nodes, 4+2+folders+10, "most of the long names are left out")
	require.GreaterOrEqual(t, lists, folders)
	require.Less(t, peak, int64(most))

	at := must.Get(inspect.Walk(t.Context(), client, "/locks", inspect.WithMemoryLimit(2<<20)))(t)
	require.False(t, at.Partial, "a few long names are read")
	require.Equal(t, 4, at.Nodes)
}
