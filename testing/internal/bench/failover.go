// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-zookeeper/zk"
	redisclient "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/gocurator/curator/recipes/locks"
)

//go:embed external/BenchFailover.java
var javaFailoverSource []byte

// taken is a lock that a contender has got. lost is closed when the contender is told that it
// is lost; nil stands for a lock that tells nothing.
type taken struct {
	lost <-chan struct{}
	kill func() error // ends the process that has the lock; nil for a lock of this process
	open closers
}

// takers acquire a lock of each peer at a server, and return when they have it.
var takers = []struct {
	peer string
	take func(ctx context.Context, addr, path string) (taken, error)
}{
	{"self", takeSelf},
	{"self-guarded", takeGuarded},
	{"zklock", takeZKLock},
	{"curator", takeJava},
	{"etcd", takeEtcd},
	{"redsync", takeRedsync},
	{"redislock", takeRedislock},
}

// failOver cuts a holder off from its server, as the server sees a kill -9 of it, while another
// contender waits. It writes a line for each peer: until the other one had the lock, and in how
// many rounds the holder, which goes on, had been told before that. The names of peers choose among those at
// ZooKeeper; without any it takes all.
func failOver(ctx context.Context, peers string, rounds int, out io.Writer) (err error) {
	stores := []peer{{store: zookeeper}}
	if peers == "" {
		stores = append(stores, peer{store: etcd}, peer{store: redis})
	}
	at, err := start(ctx, stores, 1, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	defer func() {
		if program, _ := buildGuard(); program != "" {
			err = errors.Join(err, os.RemoveAll(filepath.Dir(program)))
		}
	}()
	addresses := map[string]string{"etcd": strings.TrimPrefix(at.etcd, "http://"), "redsync": at.redis, "redislock": at.redis}
	for _, p := range takers {
		if peers != "" && !slices.Contains(strings.Split(peers, ","), p.peer) {
			continue
		}
		addr, other := addresses[p.peer]
		if !other {
			addr = at.zookeeper
		}
		var waited []float64
		told := 0
		for round := range rounds {
			seconds, before, err := failOne(ctx, p.take, addr, fmt.Sprintf("/failover-%s-%d", p.peer, round))
			if err != nil {
				return fmt.Errorf("%s: %w", p.peer, err)
			}
			waited = append(waited, seconds)
			if before {
				told++
			}
		}
		slices.Sort(waited)
		sayf(out, "peer=%s timeout=%v next_holder_s=%.3f to %.3f median_s=%.3f told_before=%d of %d\n",
			p.peer, sessionTimeout, waited[0], waited[len(waited)-1], waited[len(waited)/2], told, rounds)
	}
	return nil
}

// failOne returns the seconds from the cut until the next contender has the lock, and whether
// the holder was told before that.
func failOne(
	ctx context.Context, take func(ctx context.Context, addr, path string) (taken, error), addr, path string,
) (seconds float64, told bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	way, err := newRelay(ctx, addr)
	if err != nil {
		return 0, false, err
	}
	open := closers{way.close}
	defer func() { err = errors.Join(err, open.close()) }()
	holder, err := take(ctx, way.addr(), path)
	open = append(open, holder.open...)
	if err != nil {
		return 0, false, err
	}
	type outcome struct {
		taken
		err error
	}
	next := make(chan outcome, 1)
	go func() {
		t, err := take(ctx, addr, path)
		next <- outcome{t, err}
	}()
	select { // a waiter that has just come, and a holder that has shown signs of life since
	case <-time.After(sessionTimeout / 5):
	case early := <-next:
		open = append(open, early.open...)
		return 0, false, errors.Join(errors.New("the lock was not held"), early.err)
	}
	if holder.kill == nil {
		way.cut()
	} else if err := holder.kill(); err != nil {
		return 0, false, err
	}
	began := time.Now()
	entered := <-next
	seconds = time.Since(began).Seconds()
	open = append(open, entered.open...)
	select {
	case <-holder.lost:
		told = true
	default:
	}
	return seconds, told, entered.err
}

func takeSelf(ctx context.Context, addr, path string) (t taken, err error) {
	client, err := connectSelf(ctx, servers{zookeeper: addr})
	if err != nil {
		return t, err
	}
	t.open = closers{func() error {
		_ = client.Close() // a client that is cut off cannot end its session
		return nil
	}}
	mutex, err := locks.NewInterProcessMutex(client, path)
	if err != nil {
		return t, err
	}
	lease, err := mutex.Acquire(ctx)
	if err == nil {
		t.lost = lease.Done()
	}
	return t, err
}

func takeZKLock(ctx context.Context, addr, path string) (t taken, err error) {
	conn, err := connect(ctx, servers{zookeeper: addr})
	if err != nil {
		return t, err
	}
	t.open = closers{func() error { conn.Close(); return nil }}
	return t, zk.NewLock(conn, path, zk.WorldACL(zk.PermAll)).Lock()
}

// asHolder in the environment makes this program the process of takeGuarded, with the server and the path as its value.
const asHolder = "BENCH_HOLDER"

// hold acquires the lock, says so, and goes on until it is killed.
func hold(ctx context.Context, addr, path string) error {
	t, err := takeSelf(ctx, addr, path)
	if err != nil {
		return errors.Join(err, t.open.close())
	}
	sayf(os.Stdout, "held %d\n", os.Getpid())
	select {}
}

// buildGuard builds curatorctl.
var buildGuard = sync.OnceValues(func() (program string, err error) {
	folder, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return "", err
	}
	program = filepath.Join(folder, "curatorctl")
	out, err := exec.Command("go", "build", "-C", "../../../cmd/curatorctl", "-o", program, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build curatorctl: %w: %s", err, out)
	}
	return program, err
})

// takeGuarded has a process acquire the lock, in the care of a guard.
func takeGuarded(ctx context.Context, addr, path string) (t taken, err error) {
	program, err := buildGuard()
	if err != nil {
		return t, err
	}
	cmd := exec.CommandContext(ctx, program, "guard", "--", os.Args[0])
	cmd.Env = append(os.Environ(), asHolder+"="+addr+path)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return t, err
	}
	if err := cmd.Start(); err != nil {
		return t, err
	}
	t.open = closers{func() error {
		_ = cmd.Process.Kill() // with it goes the holder
		_ = cmd.Wait()         // it was killed
		return nil
	}}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var pid int
	if _, scanned := fmt.Sscanf(line, "held %d", &pid); scanned != nil {
		return t, fmt.Errorf("the holder says %q, expected that it has the lock: %w", line, errors.Join(err, scanned))
	}
	process, err := os.FindProcess(pid)
	t.kill = func() error {
		err := process.Kill()
		for err == nil && process.Signal(syscall.Signal(0)) == nil { // a large process takes a while to end
			<-time.After(100 * time.Microsecond)
		}
		return err
	}
	return t, err
}

// takeJava has a process of Curator acquire the lock.
func takeJava(ctx context.Context, addr, path string) (t taken, err error) {
	if err := javaMissing(); err != nil {
		return t, err
	}
	folder, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return t, err
	}
	t.open = closers{func() error { return os.RemoveAll(folder) }}
	source := filepath.Join(folder, "BenchFailover.java")
	if err := os.WriteFile(source, javaFailoverSource, 0o600); err != nil {
		return t, err
	}
	command := append(java(), source, addr, path, strconv.FormatInt(sessionTimeout.Milliseconds(), 10))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return t, err
	}
	if err := cmd.Start(); err != nil {
		return t, err
	}
	t.open = append(t.open, func() error {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		return nil
	})
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); err != nil || line != "held\n" {
		return t, fmt.Errorf("java says %q, expected that it holds the lock: %w", line, err)
	}
	lost := make(chan struct{})
	t.lost = lost
	go func() {
		if line, _ := lines.ReadString('\n'); line == "lost\n" {
			close(lost)
		}
	}()
	return t, nil
}

func takeEtcd(ctx context.Context, addr, path string) (t taken, err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + addr}, DialTimeout: sessionTimeout})
	if err != nil {
		return t, err
	}
	t.open = closers{client.Close}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(sessionTimeout/time.Second)))
	if err != nil {
		return t, err
	}
	t.lost = session.Done()
	return t, concurrency.NewMutex(session, path).Lock(ctx)
}

// takeRedsync tries again every tenth of a second; the key has no renewal, which is the program's task.
func takeRedsync(ctx context.Context, addr, path string) (t taken, err error) {
	client := redisclient.NewClient(&redisclient.Options{Addr: addr})
	t.open = closers{client.Close}
	mutex := redsync.New(goredis.NewPool(client)).NewMutex(path,
		redsync.WithExpiry(sessionTimeout), redsync.WithTries(1000), redsync.WithRetryDelay(100*time.Millisecond))
	return t, mutex.LockContext(ctx)
}

func takeRedislock(ctx context.Context, addr, path string) (t taken, err error) {
	client := redisclient.NewClient(&redisclient.Options{Addr: addr})
	t.open = closers{client.Close}
	_, err = redislock.New(client).Obtain(ctx, path, sessionTimeout,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
	return t, err
}
