// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/doctor"
	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/recipes/x/slots"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestVerbsOfZnodes goes through a script.
func TestVerbsOfZnodes(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		play(t, server.ConnectString(), `
$ create -p /t/a hello
/t/a
$ create /t/a again
[1] curatorctl: create /t/a: *
$ create /t/b -
< first
< second
/t/b
$ get /t/b
first
second
$ create /t/empty
/t/empty
$ set /t/empty -
< from the input
$ get /t/empty
from the input
$ set -version 7 /t/empty no
[1] curatorctl: set /t/empty: *
$ create -s /t/seq- x
/t/seq-0000000003
$ create -container /t/box
/t/box
$ create -container -s /t/box
[64] curatorctl: create: -container with -s or -ttl, expected one of them
$ ls /t
a
b
box
empty
seq-0000000003
$ ls -o json /t
["a","b","box","empty","seq-0000000003"]
$ ls -o wide /t
NAME*MODE*BYTES  CHILDREN  VERSION  CHANGED
a *persistent  5      0         0        20*Z
b *persistent  13     0         0        20*Z
box *persistent  0      0         0        20*Z
empty *persistent  15     0         1        20*Z
seq-0000000003  persistent  1      0         0        20*Z
$ get /missing
[1] curatorctl: get /missing: *
$ get -o json /t/a
{"path":"/t/a","data":"aGVsbG8=","bytes":5,"version":0,"aclVersion":0,"childVersion":0,"children":0,"czxid":"0x*","mzxid":"0x*","pzxid":"0x*","created":"20*Z","changed":"20*Z","ephemeralOwner":"0x0"}
$ stat /t/a
path      /t/a
mode      persistent
bytes     5
children  0
versions  data 0, children 0, ACL 0
created   20*Z by 0x*
changed   20*Z by 0x*
owner     0x0
$ stat /missing
[1] curatorctl: /missing: *
$ find -name "b*" /t
/t/b
/t/box
$ find -ephemeral /t
$ find -larger 12 /t
/t/b
/t/empty
$ find -contains ell -o json /t
["/t/a"]
$ find -owner 0x1234 /t
$ find -owner me /t
[64] curatorctl: find: -owner "me", expected 0x and hexadecimal digits
$ acl /t/a
world:anyone:rwcda
$ acl -o json /t/a
[{"scheme":"world","id":"anyone","perms":"rwcda"}]
$ acl /t/a world:anyone:x
[64] curatorctl: acl: 2 arguments, expected PATH
$ create -p /u/v/a hello
/u/v/a
$ rm /t/b
$ rm /t
[1] curatorctl: delete /t: *
$ rm -r -yes -version 7 /t
[64] curatorctl: rm: -r together with -version, expected one of them: *
$ rm -r /t /u/v/a
[64] deletes 5 znodes at /t and below; deletes 1 znode at /u/v/a and below; curatorctl: rm: nothing was done: -yes is missing
$ ls
t
u
$ rm -r -yes /t
[0] deletes 5 znodes at /t and below
$ find /u
/u
/u/v
/u/v/a
`)
	})
}

// TestVerbsKeepBytes: data that is no text goes in and comes out.
func TestVerbsKeepBytes(t *testing.T) {
	server := zktest.NewServer(t)
	data := string([]byte{0, 1, 0xff, '\n', '\r', 0})
	require.Zero(t, curatorctl(t, server.Addr(), data, "create", "/bytes", "-").status)
	require.Equal(t, data, curatorctl(t, server.Addr(), "", "get", "/bytes").stdout)
}

// TestVerbsInputWithoutEnd is refused, and not kept.
func TestVerbsInputWithoutEnd(t *testing.T) {
	server := zktest.NewServer(t)
	for _, verb := range []string{"create", "set"} {
		said := program{stdin: endless{}}.in(t, nil, "-servers", server.Addr(), verb, "/a", "-")
		require.Equal(t, outcome{stderr: "curatorctl: too large: the standard input has more than 1048576 bytes\n", status: exitFailed}, said)
	}
}

// endless is a reader of zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// holdLock holds a lock until the test ends.
func holdLock(t *testing.T, lock locks.InterProcessLock) *locks.Lease {
	t.Helper()
	lease := must.Get(lock.Acquire(zktest.Context(t)))(t)
	t.Cleanup(func() { _ = lease.Release(context.Background()) }) // a test may have broken it
	return lease
}

// awaitContenders waits until a lock has so many.
func awaitContenders(t *testing.T, client *framework.Framework, path string, n int) {
	t.Helper()
	for f, err := range client.FollowChildren(zktest.Context(t), path) {
		require.NoError(t, err)
		if len(f.Names) == n {
			return
		}
	}
}

// TestVerbsListLocks, shown, revoked and broken, on every server.
func TestVerbsListLocks(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/report", locks.WithLabel("nightly"), locks.WithoutReentry()))(t)
		lease := holdLock(t, mutex)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := mutex.Acquire(ctx)
			require.ErrorIs(t, err, locks.ErrNotAcquired)
		})
		defer wg.Wait()
		defer stop()
		awaitContenders(t, client, "/locks/report", 2)
		text := strings.NewReplacer("<NODE>", lease.Path(), "<TOKEN>", strconv.FormatInt(lease.Token(), 10), "<SESSION>", client.Session().String())
		play(t, server.ConnectString(), text.Replace(`
$ locks
PATH           KIND   HOLDER*HELD  WAITERS  WAITING
/locks/report  mutex  nightly (*/*)*s    1*s
$ locks -o wide /locks
PATH           KIND   HOLDER*HELD  WAITERS  WAITING  TOKEN*SESSION*CLIENT   FOREIGN
/locks/report  mutex  nightly (*/*)*s    1*s*<TOKEN>*<SESSION>*curator  0
$ locks -o json
[{"path":"/locks/report","kind":"mutex","holders":1,"waiters":1,"oldestHold":{"path":"<NODE>",*"token":<TOKEN>,*"holds":true,"waitsFor":[],"session":"<SESSION>"},"longestWait":{*"waitsFor":["<NODE>"],*}}]
$ locks -waiting-longer 1h
PATH  KIND  HOLDER  HELD  WAITERS  WAITING
$ locks -waiting-longer 1ns
[2]
PATH           KIND   HOLDER*HELD  WAITERS  WAITING
/locks/report  mutex  nightly (*/*)*s    1*s
$ locks /missing
[1] curatorctl: *
$ lock show /locks/report
/locks/report: mutex, 1 hold, 1 wait
  holds nightly (*/*) for *s, token <TOKEN>
        node <NODE>
        session <SESSION> is connected from *:* to *:*, timeout 30s, renewed * times over this connection, the last time * ago
  waits nightly (*/*) for *s, token *, behind nightly (*/*)
        node /locks/report/_c_*-lock-0000000001
        session <SESSION> is connected from *:* to *:*, timeout 30s, renewed * times over this connection, the last time * ago
$ lock show -o json /locks/report
[{"path":"/locks/report","kind":"mutex","holders":1,"waiters":1,"participants":[*]}]
$ lock show /locks
/locks: no recipe, or a lock without contenders
$ lock show -o json /locks
[]
$ lock revoke -yes /locks
[1] curatorctl: /locks: no contender holds a lock there
$ lock break /locks/report
[64] curatorctl: lock break: /locks/report: it is no contender *; the lock is held by <NODE> of nightly (*/*) with the token <TOKEN>
$ lock revoke /locks/report
[64] replaces the data of node <NODE>, the name of nightly (*/*); curatorctl: lock revoke: nothing was done: -yes is missing
$ lock revoke -yes /locks/report
asked nightly (*/*) to give the lock back, node <NODE>
$ lock revoke <NODE>
its owner was asked before, node <NODE>
$ lock break <NODE>
[64] curatorctl: lock break: -token missing; curatorctl lock show has the token of each hold
$ lock break -token 1 -yes /locks
[64] curatorctl: lock break: /locks: it is no contender of a lock or an election: *, as lock show prints it
$ lock break -token 1 <NODE>
[1] curatorctl: <NODE> has the token <TOKEN>, expected 1: it is another hold
$ lock break -token <TOKEN> <NODE>
[64] deletes *; nightly (*) is next; *; curatorctl: lock break: nothing was done: -yes is missing
`))
		require.NoError(t, lease.Err())
		zktest.Await(t, lease.Revoked(), "the request")
		stop()
		wg.Wait()
		awaitContenders(t, client, "/locks/report", 1) // the node of the one that has left is deleted in the background
		play(t, server.ConnectString(), text.Replace(`
$ lock break -yes -token <TOKEN> <NODE>
[0] deletes *; no contender waits for it; *
deleted <NODE>
$ lock break -yes -token <TOKEN> <NODE>
[1] curatorctl: *
`))
		zktest.Await(t, lease.Done(), "the end of the lease")
	})
}

// TestVerbsShowSlots with the number of each holder.
func TestVerbsShowSlots(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		numbers := must.Get(slots.New(zktest.Client(t, server), "/ids", 2, slots.WithLabel("node"), slots.WithDelay(time.Second)))(t)
		for range 2 {
			slot := must.Get(numbers.Take(zktest.Context(t)))(t)
			t.Cleanup(func() { require.NoError(t, slot.Release(context.Background())) })
		}
		play(t, server.ConnectString(), `
$ locks
PATH  KIND   HOLDER*HELD  WAITERS  WAITING
/ids  slots  node (*/*) and 1 more*s*0*-
$ lock show /ids
/ids: slots, 2 hold, 0 wait
  holds the number 0: node (*/*) for *s, token *
        node /ids/_c_*-slot-0-0000000000
        session *
  holds the number 1: node (*/*) for *s, token *
        node /ids/_c_*-slot-1-*
        session *
`)
	})
}

// TestVerbsNameWhatIsInTheWay: all holders that revoke would ask, and a znode that is no contender.
func TestVerbsNameWhatIsInTheWay(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	for range 2 {
		lock := must.Get(locks.NewInterProcessReadWriteLock(client, "/locks/rw"))(t)
		holdLock(t, lock.ReadLock())
	}
	must.Get(client.Create(t.Context(), "/locks/report/my-lock-0000000000", nil, framework.CreatingParentsIfNeeded()))(t)
	mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/report"))(t)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := mutex.Acquire(ctx)
		require.ErrorIs(t, err, locks.ErrNotAcquired)
	})
	defer wg.Wait()
	defer stop()
	awaitContenders(t, client, "/locks/report", 2)
	play(t, server.Addr(), `
$ lock revoke /locks/rw
[64] replaces the data of node */locks/rw/*; replaces the data of node */locks/rw/*; curatorctl: lock revoke: nothing was done: -yes is missing
$ lock show /locks/report
/locks/report: mutex, 0 hold, 1 wait
  waits * for *s, token *, behind /locks/report/my-lock-0000000000
        node *
        session *
  foreign child my-lock-0000000000
`)
}

// TestVerbsListPartitions also with one that its owner does not have yet.
func TestVerbsListPartitions(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		mutex := must.Get(locks.NewInterProcessMutex(zktest.Client(t, server), "/jobs/locks/bills"))(t)
		stuck := holdLock(t, mutex)
		member, err := partition.New(client, "/jobs", partition.Fixed("orders", "bills"), partition.WithID("worker-1"), partition.WithCapacity(3))
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		held, ended := make(chan string, 2), make(chan error, 1)
		go func() {
			ended <- member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
				held <- p.Name
				<-ctx.Done()
				return nil
			})
		}()
		require.Equal(t, "orders", zktest.Await(t, held, "the partition that is free"))
		zktest.Await(t, stuck.Revoked(), "the request for the other one")
		play(t, server.ConnectString(), `
$ partitions /jobs
MEMBER    CAPACITY  WANTED  HELD  STATE
worker-1  3         2       1     alive

PARTITION  OWNER     HOLDER    SINCE  WAITING  STATE
bills      worker-1  ?         *s     1        moving, asked for
orders     worker-1  *-1  *s     0        held
$ partitions -moving /jobs
[2]
MEMBER    CAPACITY  WANTED  HELD  STATE
worker-1  3         2       1     alive

PARTITION  OWNER*HOLDER*SINCE  WAITING  STATE
bills      worker-1  ?*s     1        moving, asked for
$ partitions -o json /jobs
{"members":[{"id":"worker-1","capacity":3,"alive":true,"wanted":2,"held":1}],"partitions":[{"name":"bills",*"asked":true,"waiting":1},{"name":"orders",*}],"balanced":true}
$ partitions /missing
[1] curatorctl: children /missing: *
$ partitions drain /jobs worker-1
drained worker-1
$ partitions drain /jobs worker-7
[0] curatorctl: worker-7 is no member of /jobs now, and the order waits for it
drained worker-7
$ partitions drain /jobs orders
[0] curatorctl: orders is no member of /jobs now, and the order waits for it
drained orders
$ partitions drain -undo /jobs orders
no longer drained: orders
$ partitions drain -undo /jobs worker-7
no longer drained: worker-7
$ partitions pin /jobs order worker-7
[0] *order is no partition of /jobs now, *worker-7 is no member*
pinned order to worker-7
$ partitions pin /jobs order
no longer pinned: order
$ partitions exclude /jobs old
[0] curatorctl: old is no partition of /jobs now, and the order waits for it
excluded old
$ partitions exclude -undo /jobs old
no longer excluded: old
$ partitions pin /jobs orders worker-1
pinned orders to worker-1
$ partitions -moving /jobs
[2]
MEMBER    CAPACITY  WANTED  HELD  STATE
worker-1*alive, drained

PARTITION  OWNER*HOLDER*SINCE*
bills*
$ partitions pin /jobs orders
no longer pinned: orders
$ partitions drain -undo /jobs worker-1
no longer drained: worker-1
$ lock show /jobs
/jobs: partitions, *
  has {*} for *
        node /jobs/members/worker-1
*
$ partitions drain /missing worker-1
[1] curatorctl: children /missing: *
`)
		require.NoError(t, stuck.Release(ctx))
		require.Equal(t, "bills", zktest.Await(t, held, "the partition that is free now"))
		play(t, server.ConnectString(), `
$ partitions -moving /jobs
MEMBER    CAPACITY  WANTED  HELD  STATE
worker-1  3         2       2     alive

PARTITION  OWNER  HOLDER  SINCE  WAITING  STATE
`)
		stop()
		require.ErrorIs(t, zktest.Await(t, ended, "the end"), context.Canceled)
	})
}

// TestVerbsOfJobs lists a job and its runs, and orders.
func TestVerbsOfJobs(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		ran := make(chan schedule.Tick, 100)
		s := must.Get(schedule.New(client, "/fleet", schedule.Job{
			Name: "sync", Schedule: schedule.Every(24 * time.Hour),
			Run: func(_ context.Context, tick schedule.Tick) error {
				ran <- tick
				return errors.New("the database is away")
			},
		}))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for {
			list, err := schedule.List(t.Context(), client, "/fleet")
			if err == nil && len(list) == 1 && !list[0].Next.IsZero() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		play(t, server.ConnectString(), `
$ job pause /fleet sync
paused sync
$ jobs /fleet
JOB   STATE   LAST SUCCESS  NEXT                  RUNNER* FAILURES  MISSED
sync  paused  -             *00:00:00Z  *  0         0
$ job run /fleet sync
asked for a run of sync
`)
		require.True(t, zktest.Await(t, ran, "the run").Manual)
		for {
			list := must.Get(schedule.List(t.Context(), client, "/fleet"))(t)
			if len(list[0].History) == 1 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		play(t, server.ConnectString(), `
$ job history /fleet sync
TICK*OUTCOME  ATTEMPT  LATE  TOOK  RUNNER*ERROR
*Z by order  failed   1        -     0s    *  the database is away
$ job resume /fleet sync
resumed sync
$ job skip /fleet sync
skips sync of *00:00:00Z
$ jobs -o json /fleet
[{"name":"sync","skip":*"known":true,*"outcome":"failed"*}]
$ job history /fleet other
[1] curatorctl: *job "other"*
$ jobs /missing
[1] curatorctl: *
`)
		stop()
		require.ErrorIs(t, zktest.Await(t, ended, "the end"), context.Canceled)
	})
}

// TestVerbsOfServersAndSessions, on every server.
func TestVerbsOfServersAndSessions(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		must.Get(client.Create(t.Context(), "/mine", nil, framework.WithMode(framework.Ephemeral), framework.CreatingParentsIfNeeded()))(t)
		got := curatorctl(t, server.ConnectString(), "", "ensemble", "-o", "json")
		require.Zero(t, got.status, got.stderr)
		var e doctor.Ensemble
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &e))
		require.True(t, e.Quorum)
		require.Len(t, e.Servers, 1)
		require.Equal(t, "standalone", e.Servers[0].Mode)
		require.NotZero(t, e.Servers[0].Connections)
		require.NotZero(t, e.Servers[0].TickTime)
		require.Regexp(t, `^\d+\.\d+\.\d+`, e.Servers[0].Version)
		require.Contains(t, curatorctl(t, server.ConnectString(), "", "ensemble").stdout, "quorum: yes")

		got = curatorctl(t, server.ConnectString(), "", "sessions", "-o", "json")
		require.Zero(t, got.status, got.stderr)
		var sessions []inspect.Session
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &sessions))
		found := false
		for _, s := range sessions {
			if s.ID != client.Session().String() {
				continue
			}
			found = true
			require.Equal(t, []string{"/mine"}, trimmed(s.Ephemerals, server.Root()))
			require.Equal(t, server.Addr(), s.Server)
			require.Equal(t, 30_000, s.Timeout)
			require.NotEmpty(t, s.Client)
		}
		require.True(t, found)
		require.Contains(t, curatorctl(t, server.ConnectString(), "", "sessions", "-o", "wide").stdout, "/mine")
		require.Equal(t, "/mine\n", curatorctl(t, server.ConnectString(), "", "find", "-owner", client.Session().String()).stdout)
		require.Equal(t, "/mine\n", curatorctl(t, server.ConnectString(), "", "find", "-ephemeral").stdout)
	})
}

// trimmed returns paths without the chroot.
func trimmed(paths []string, root string) []string {
	var short []string
	for _, p := range paths {
		short = append(short, strings.TrimPrefix(p, root))
	}
	return short
}

// TestEnsembleWithAServerThatIsDown still has a quorum.
func TestEnsembleWithAServerThatIsDown(t *testing.T) {
	server := zktest.NewServer(t)
	down := zktest.NewServer(t)
	require.NoError(t, down.Stop())
	got := curatorctl(t, server.Addr()+","+down.Addr(), "", "ensemble")
	require.Zero(t, got.status, got.stderr)
	require.Contains(t, got.stdout, down.Addr()+"  error: ")
}

// TestEnsembleThatHasLostItsQuorum: no client can connect then.
func TestEnsembleThatHasLostItsQuorum(t *testing.T) {
	server := zktest.NewServer(t)
	heal := server.LoseQuorum()
	defer heal()
	for _, output := range []string{"table", "json"} {
		got := curatorctl(t, server.Addr(), "", "ensemble", "-o", output)
		require.Equal(t, exitUnavailable, got.status, got.stderr)
		require.Contains(t, got.stdout, "read-only")
		require.Regexp(t, `quorum: no|"quorum":false`, got.stdout)
		require.Empty(t, got.stderr)
	}
}

// TestVerbsSayThatTheQuorumIsLost, long before they give up to connect, and doctor has it as its first finding.
func TestVerbsSayThatTheQuorumIsLost(t *testing.T) {
	server, down := zktest.NewServer(t), zktest.NewServer(t)
	require.NoError(t, down.Stop())
	server.LoseQuorum()
	servers := server.Addr() + "," + down.Addr()
	for _, line := range []string{"explain /a", "locks", "deadlocks", "sessions", "get /a", "lock show /a"} {
		got := curatorctl(t, servers, "", append(strings.Fields(line), "-timeout", "10m")...)
		require.Equal(t, exitUnavailable, got.status, line)
		require.Contains(t, got.stderr, "curatorctl: no server has a quorum: ", line)
		require.Contains(t, got.stderr, server.Addr()+": read-only", line)
		require.Contains(t, got.stderr, down.Addr()+": connection refused", line)
	}
	got := curatorctl(t, servers, "", "doctor", "-timeout", "10m")
	require.Equal(t, exitFound, got.status)
	require.True(t, strings.HasPrefix(got.stdout, "server: "+servers+": no server has a quorum\n"), got.stdout)
}

// TestVerbsSetRefusesNothing: an empty standard input is that of cron, and erases no data.
func TestVerbsSetRefusesNothing(t *testing.T) {
	play(t, zktest.NewServer(t).Addr(), `
$ create /config value
/config
$ set /config
[64] curatorctl: set: the standard input is empty, expected data; "" or - as DATA sets none
$ get /config
value
$ set /config -
$ get /config
$ set /config ""
`)
}

// running is a verb that goes on until it is stopped.
type running struct {
	out    *lines
	stop   chan os.Signal
	status chan int
}

// lines gathers output, and tells of it.
type lines struct {
	mu     sync.Mutex
	text   bytes.Buffer
	change chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.change)
	l.change = make(chan struct{})
	return l.text.Write(p)
}

// await waits until the output has the text.
func (l *lines) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(limit)
	for {
		l.mu.Lock()
		has, change, all := strings.Contains(l.text.String(), text), l.change, l.text.String()
		l.mu.Unlock()
		if has {
			return
		}
		select {
		case <-change:
		case <-deadline:
			require.Fail(t, "no such output", "%q in\n%s", text, all)
		}
	}
}

func begin(t *testing.T, servers string, args ...string) *running {
	t.Helper()
	r := &running{out: &lines{change: make(chan struct{})}, stop: make(chan os.Signal, 1), status: make(chan int, 1)}
	p := program{
		verbs: verbs(), stdin: strings.NewReader(""), stdout: r.out, stderr: r.out, signals: r.stop,
		getenv: func(name string) string { return map[string]string{"CURATOR_SERVERS": servers}[name] },
	}
	ctx := zktest.Context(t)
	go func() { r.status <- p.run(ctx, args) }()
	return r
}

func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop <- syscall.SIGINT
	require.Equal(t, exitSignal+int(syscall.SIGINT), zktest.Await(t, r.status, "the end"))
}

// TestVerbsFollowLeaders by elect -l.
func TestVerbsFollowLeaders(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	r := begin(t, server.Addr(), "elect", "-l", "/election")
	r.out.await(t, "no leader\n")
	latch := must.Get(leader.NewLeaderLatch(client, "/election", leader.WithID("one")))(t)
	require.NoError(t, latch.Start())
	r.out.await(t, "one leads, term ")
	require.NoError(t, latch.Close())
	r.end(t)
}

// TestVerbsRefuseCommandLines: what is wrong with one is said, with status 64.
func TestVerbsRefuseCommandLines(t *testing.T) {
	server := zktest.NewServer(t)
	play(t, server.Addr(), `
$ lcoks
[64] curatorctl: unknown verb "lcoks"; did you mean "locks"?
$ lock
[64] curatorctl: lock: second word missing, expected show, run, revoke, break; see curatorctl help lock
$ lock brake /a
[64] curatorctl: unknown verb "lock brake"; did you mean "lock break"?
$ frobnicate
[64] curatorctl: unknown verb "frobnicate"; see curatorctl help
$ create /no/such/parent
[1] curatorctl: create *: its parent /no/such is missing, expected the parent, or -p
$ get /Joining/WithTTL
[1] curatorctl: get /Joining/WithTTL: *
$ get
[64] curatorctl: get: 0 arguments, expected PATH
$ get /a /b
[64] curatorctl: get: 2 arguments, expected PATH
$ get -x /a
[64] curatorctl: get: flag provided but not defined: -x; see curatorctl help get
$ -x get /a
[64] curatorctl: flag provided but not defined: -x; see curatorctl help
$ ls -timeout 5x
[64] curatorctl: ls: invalid value "5x" for flag -timeout: expected seconds, or a number with a unit, such as 90s; see curatorctl help ls
$ ls -timeout 5
zookeeper
$ ls -o yaml
[64] curatorctl: ls: -o "yaml", expected table, wide or json
$ ls -servers http://zk1
[64] curatorctl: *
$ ls -ca /no/such/file
[64] curatorctl: -ca: open /no/such/file: *
$ ls -tls=maybe
[64] curatorctl: ls: invalid boolean value "maybe" for -tls: expected 1 or 0, or true or false; see curatorctl help ls
$ set -version 4294967295 /a data
[64] curatorctl: set: invalid value "4294967295" for flag -version: expected -1 to 2147483647; see curatorctl help set
$ rm -version -2 /a
[64] curatorctl: rm: invalid value "-2" for flag -version: expected -1 to 2147483647; see curatorctl help rm
$ locks -waiting-longer -1m
[64] curatorctl: locks: invalid value "-1m" for flag -waiting-longer: expected more than 0, *
$ lock run /a
[64] curatorctl: lock run: command missing, expected it after --
$ elect /a
[64] curatorctl: elect: command missing, expected it after --
$ elect -l /a -o json
[64] curatorctl: elect: "-o" after PATH, expected flags before it; see curatorctl help elect
$ elect -l /a ls
[64] curatorctl: elect: "ls" after -l PATH, expected nothing*
$ lock run /a -n -- true
[64] curatorctl: lock run: "-n" after PATH, expected flags before it; see curatorctl help lock run
$ version now
[64] curatorctl: version: 1 arguments, expected none
$ -o json ls
["zookeeper"]
$ ls / -o json
["zookeeper"]
$ create /offset -- -5
/offset
$ get -- /offset
-5
$ set /offset -- -6
< from the input
$ get /offset --
-6
$ get /offset -- -o json
[64] curatorctl: get: 3 arguments, expected PATH
$ find -contains -- /missing
[1] curatorctl: *
$ rm -- /offset
$ help lcoks
[64] curatorctl: unknown verb "lcoks"; did you mean "locks"?
$ version
curatorctl *
$ --version
curatorctl *
`)
	for _, args := range [][]string{{"help"}, {"-h"}, {"help", "lock", "run"}, {"locks", "-h"}, {"lock", "-h"}, {"lock", "--help"}} {
		got := curatorctl(t, server.Addr(), "", args...)
		require.Zero(t, got.status)
		require.Contains(t, got.stdout, "curatorctl")
	}
	require.Equal(t, exitUnavailable, curatorctl(t, "127.0.0.1:1", "", "ls", "-timeout", "100ms").status)
	got := curatorctl(t, server.Addr(), "")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "verb missing")
}

// TestVerbsFlagsThatSayNothing are refused: a variable that a script has not set must not mean what no flag means.
func TestVerbsFlagsThatSayNothing(t *testing.T) {
	play(t, "127.0.0.1:1", `
$ lock run -once "" /jobs -- true
[64] curatorctl: lock run: invalid value "" for flag -once: expected a name *
$ lock run -once 2006/01/02 /jobs -- true
[64] *
$ lock run -label "" /jobs -- true
[64] *
$ ls -ca "" -cert "" -key ""
[64] curatorctl: ls: invalid value "" for flag -ca: expected some text; *
$ -sasl-file "" ls
[64] *
$ partitions pin /orders 7 ""
[64] curatorctl: partitions pin: MEMBER "": expected a name *
$ partitions drain /orders a/b
[64] *
$ job pause /cron ""
[64] *
$ lock run -permits 0 /semaphore -- true
[64] curatorctl: lock run: invalid value "0" for flag -permits: expected 1 or more; *
$ lock show -permits -1 /semaphore
[64] curatorctl: lock show: invalid value "-1" for flag -permits: expected 1 or more; *
$ locks -waiting-longer 0
[64] curatorctl: locks: invalid value "0" for flag -waiting-longer: expected more than 0, *
$ create -ttl 0s /brief
[64] curatorctl: create: invalid value "0s" for flag -ttl: expected more than 0, *
$ find -name ""
[64] curatorctl: find: invalid value "" for flag -name: expected some text; *
$ find -owner ""
[64] *
$ find -contains ""
[64] *
$ find -larger -1
[64] *
`)
}

// TestVerbsWrongPathsAreRefused before a server is asked: there is none.
func TestVerbsWrongPathsAreRefused(t *testing.T) {
	for _, v := range verbs() {
		if v.argument(0) != "PATH" && v.argument(0) != "NODE" {
			continue
		}
		args := append(strings.Fields(v.name), "relative")
		for len(args)-len(strings.Fields(v.name)) < v.least {
			args = append(args, "/a")
		}
		if v.verbatim {
			args = append(args, "--", "true")
		}
		got := curatorctl(t, "127.0.0.1:1", "", args...)
		require.Equal(t, exitUsage, got.status, "%v: %s", args, got.stderr)
		require.Contains(t, got.stderr, "a path begins with a slash", args)
	}
}

// TestVerbsNameAChrootThatIsMissing: the path that was typed is not to blame.
func TestVerbsNameAChrootThatIsMissing(t *testing.T) {
	server := zktest.NewServer(t)
	play(t, server.Addr()+"/typo", `
$ ls
[1] curatorctl: children /: node does not exist; the chroot /typo of -servers does not exist
$ locks
[1] curatorctl: *; the chroot /typo of -servers does not exist
$ create -p /a
/a
$ get /b
[1] curatorctl: get /b: node does not exist
`)
}

// TestVerbsHelpOfAFamily lists its verbs only.
func TestVerbsHelpOfAFamily(t *testing.T) {
	got := curatorctl(t, "127.0.0.1:1", "", "help", "lock")
	require.Zero(t, got.status, got.stderr)
	require.Contains(t, got.stdout, "lock revoke PATH")
	require.NotContains(t, got.stdout, "locks [PATH]")
}

// TestVerbsRefuseWhatServersWould, before they are asked.
func TestVerbsRefuseWhatServersWould(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		play(t, server.ConnectString(), `
$ create relative
[64] curatorctl: create: invalid path "relative": *
$ rm /
[64] curatorctl: delete: invalid path "/": *
`)
		require.Contains(t, curatorctl(t, server.ConnectString(), "", "whoami").stdout, "ip:127.0.0.1\n")
		require.Contains(t, curatorctl(t, server.ConnectString(), "", "whoami", "-o", "json").stdout, `{"scheme":"ip","id":"127.0.0.1"}`)
	})
}

// TestVerbsOneZnodeDoesNotSwellTheOutput, however long its data are.
func TestVerbsOneZnodeDoesNotSwellTheOutput(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	const name = "/_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000000"
	for i := range 20 {
		data := []byte("10.0.0.1")
		if i == 0 {
			data = bytes.Repeat([]byte("A"), 900_000)
		}
		must.Get(client.Create(t.Context(), fmt.Sprintf("/locks/x%d%s", i, name), data, framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))(t)
	}
	for _, args := range [][]string{{"locks"}, {"locks", "-o", "wide"}, {"lock", "show", "/locks/x0"}, {"lock", "revoke", "-yes", "/locks/x0" + name}} {
		got := curatorctl(t, server.Addr(), "", args...)
		require.Zero(t, got.status, got.stderr)
		require.Contains(t, got.stdout, "AAAA\u2026", args)
		require.Less(t, len(got.stdout), 10_000, args)
	}
}

// TestVerbsSpareZnodesOfApplications: a znode that is no contender is neither deleted nor overwritten, whatever its name,
// and no monitor counts it. It is not deleted either if this client may not read what it is.
func TestVerbsSpareZnodesOfApplications(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		const uuid = "0c8f7ab1-f7a5-4ad3-b8cb-1b1c4ef2bd30"
		whole := "_c_" + uuid + "-lock-0000000001"
		for i, name := range []string{
			"release-0000000001", "block-0000000001", "lock-0000000001", "d41d8cd98f00b204e9800998ecf8427e", "_c_" + uuid + "-block-0000000001", whole,
		} {
			for _, mode := range []framework.CreateMode{framework.Persistent, framework.Ephemeral} {
				if name == whole && mode == framework.Ephemeral {
					continue // a contender
				}
				path := fmt.Sprintf("/app/%d-%d/%s", i, mode, name)
				must.Get(client.Create(t.Context(), path, []byte("precious"), framework.CreatingParentsIfNeeded(), framework.WithMode(mode)))(t)
				stat := must.Get(client.Exists(t.Context(), path))(t)
				folder, _ := framework.SplitPath(path)
				for _, args := range [][]string{
					{"lock", "break", "-yes", "-token", strconv.FormatInt(stat.Czxid, 10), path},
					{"lock", "revoke", "-yes", path},
					{"lock", "revoke", "-yes", folder},
				} {
					got := curatorctl(t, server.ConnectString(), "", args...)
					require.NotZero(t, got.status, args)
					require.Contains(t, got.stderr, args[len(args)-1], "it is named")
				}
				require.Equal(t, "precious", string(must.Get(client.Get(t.Context(), path))(t)))
			}
		}
		got := curatorctl(t, server.ConnectString(), "", "locks", "-waiting-longer", "1ns", "/app")
		require.Zero(t, got.status, got.stdout)

		mine := "/app/mine/" + whole
		must.Get(client.Create(t.Context(), mine, []byte("precious"), framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral),
			framework.WithACL(framework.ACL{Perms: framework.PermAll &^ framework.PermRead, Scheme: "world", ID: "anyone"})))(t)
		for _, args := range [][]string{{"lock", "break", "-yes", "-token", "1", mine}, {"lock", "revoke", "-yes", mine}, {"lock", "revoke", "-yes", "/app/mine"}} {
			require.NotZero(t, curatorctl(t, server.ConnectString(), "", args...).status, args)
		}
		require.NotEmpty(t, must.Get(client.GetACL(t.Context(), mine))(t))
	})
}

// TestVerbsTimeoutSparesInput: a verb that reads gives its writer time.
func TestVerbsTimeoutSparesInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		var stdout, stderr bytes.Buffer
		p := program{
			verbs: verbs(), stdin: io.MultiReader(slowReader(time.Hour), strings.NewReader("at last")), stdout: &stdout, stderr: &stderr,
			getenv:  func(string) string { return "" },
			options: []framework.Option{framework.WithDialer(server.Dial)},
		}
		require.Equal(t, exitDone, p.run(t.Context(), []string{"create", "-timeout", "5s", "/late", "-"}), stderr.String())
		require.Equal(t, exitDone, p.run(t.Context(), []string{"get", "/late"}), stderr.String())
		require.Equal(t, "/late\nat last", stdout.String())
	})
}

// TestVerbsTimeoutEndsRequests that are not answered, also of verbs that read their input.
func TestVerbsTimeoutEndsRequests(t *testing.T) {
	for _, args := range [][]string{{"set", "/a", "data"}, {"create", "/a"}, {"rm", "/a"}, {"ls", "/a"}, {"acl", "/a"}} {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Path == "/a" {
					return zkserver.NeverAnswer
				}
				return zkserver.Pass
			})
			p := program{
				verbs: verbs(), stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" },
				options: []framework.Option{framework.WithDialer(server.Dial)},
			}
			began := time.Now()
			require.Equal(t, exitUnavailable, p.run(t.Context(), append([]string{"-timeout", "3s"}, args...)), "%v", args)
			require.Less(t, time.Since(began), 6*time.Second, "%v", args)
		})
	}
}

// slowReader is at its end after a while.
type slowReader time.Duration

func (r slowReader) Read([]byte) (int, error) {
	time.Sleep(time.Duration(r))
	return 0, io.EOF
}

// TestVerbsWithoutPermission has a status of its own.
func TestVerbsWithoutPermission(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	must.Get(client.Create(t.Context(), "/secret", nil, framework.WithACL(framework.DigestACL(framework.PermAll, "user", "password")...)))(t)
	require.Equal(t, exitNoPerm, curatorctl(t, server.Addr(), "", "get", "/secret").status)
	play(t, server.Addr(), `
$ find /secret
[0] curatorctl: /secret may not be read
`)
	for auth, status := range map[string]int{"digest:user:password": exitDone, "digest:user:wrong": exitNoPerm, "digest": exitUsage} {
		said := program{}.in(t, map[string]string{"CURATOR_SERVERS": server.Addr(), "CURATOR_AUTH": auth}, "get", "/secret")
		require.Equal(t, status, said.status, "%s: %s", auth, said.stderr)
	}
}

// TestVerbsTerminalsObeyNothing that comes from ZooKeeper.
func TestVerbsTerminalsObeyNothing(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/report", locks.WithLockData([]byte("\x1b[2J\r evil\n"))))(t)
	holdLock(t, mutex)
	for _, args := range [][]string{{"locks"}, {"lock", "show", "/locks/report"}, {"-o", "wide", "locks"}} {
		got := curatorctl(t, server.Addr(), "", args...)
		require.Contains(t, got.stdout, `"\x1b[2J\r evil\n"`)
		require.NotContains(t, got.stdout, "\x1b")
	}
	const reversed = "/secret\u202egpj"
	must.Get(client.Create(t.Context(), reversed, nil, framework.WithACL(zk.WorldACL(framework.PermAdmin)...)))(t)
	require.Contains(t, curatorctl(t, server.Addr(), "", "find", "/").stderr, `/secret\u202egpj`)
}

// TestVerbsShowStandbys: which members stand by for a partition, and which of them are not prepared.
func TestVerbsShowStandbys(t *testing.T) {
	p := partition.State{Name: "orders", Owner: "a", Holder: "a", Standbys: []string{"b", "c"}, Prepared: []string{"c"}}
	cells := partitionCells(p, true)
	require.Equal(t, "b (preparing), c", cells[len(cells)-1])
	require.Equal(t, "-", partitionCells(partition.State{}, true)[len(cells)-1])
}

// TestVerbsSayWhatTheyHaveDeleted when a signal ends rm -r, and the program exits as those do that a signal ends. Of what is done several at
// a time, the last answers may come later than the signal.
func TestVerbsSayWhatTheyHaveDeleted(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	for i := range 4 {
		must.Get(client.Create(t.Context(), fmt.Sprintf("/from/%d", i), []byte("data"), framework.CreatingParentsIfNeeded()))(t)
	}
	r := &running{stop: make(chan os.Signal, 1)}
	writes, never := 0, make(chan struct{})
	remove := server.Intercept(func(q zkserver.Request) zkserver.Fault {
		if q.Op != zkserver.OpDelete {
			return zkserver.Pass
		}
		if writes++; writes < 3 {
			return zkserver.Pass
		}
		if writes == 3 {
			r.stop <- syscall.SIGINT
		}
		return zkserver.HoldUntil(never)
	})
	defer remove()
	defer close(never)
	said := program{signals: r.stop}.in(t, nil, "-servers", server.Addr(), "rm", "-r", "-yes", "/from")
	require.Equal(t, exitSignal+int(syscall.SIGINT), said.status, said.stderr)
	require.Regexp(t, "curatorctl: deleted [0-2] of 5 znodes: ended by signal: interrupt\n$", said.stderr)
}
