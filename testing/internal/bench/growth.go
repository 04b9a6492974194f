// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/locks"
)

// grown is what n things cost: the time until the last of them is there, the resident memory that
// the server takes for them, and the median of an exists of another client beside them.
type grown struct {
	N          int
	Seconds    float64
	ServerKB   float64
	ExistsP50  float64 // in microseconds
	ServerCPUs float64 // processor seconds of the server
}

// growth is one kind of thing. grow makes n of them below path, and returns how to end them.
type growth struct {
	name string
	grow func(ctx context.Context, at servers, path string, n int) (closers, error)
}

var growths = []growth{
	{"sessions", growSessions},
	{"locks", growLocks},
	{"waiters", growWaiters},
	{"instances", growInstances},
	{"cache nodes", growCacheNodes},
	{"watches", growWatches},
}

// growAll measures each kind with each number on a server of its own, and writes a line for each.
func growAll(ctx context.Context, numbers []int, out io.Writer) error {
	for _, g := range growths {
		for _, n := range numbers {
			measured, err := growOne(ctx, g, n)
			if err != nil {
				return fmt.Errorf("%d %s: %w", n, g.name, err)
			}
			sayf(out, "| %s | %d | %.2f s | %.1f ms | %.0f µs | %.0f MB |\n", g.name, n,
				measured.Seconds, 1e3*measured.ServerCPUs/float64(n), measured.ExistsP50, measured.ServerKB/1024)
		}
	}
	return nil
}

func growOne(ctx context.Context, g growth, n int) (m grown, err error) {
	at, err := start(ctx, []peer{{store: zookeeper}}, 1, false)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	other, err := connectSelf(ctx, at)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	pid := at.ensemble.Servers()[0].PID()
	before, err := processorSeconds(pid)
	if err != nil {
		return m, err
	}
	begun := time.Now()
	open, err := g.grow(ctx, at, "/growth", n)
	defer func() { err = errors.Join(err, open.close()) }()
	if err != nil {
		return m, err
	}
	m = grown{N: n, Seconds: time.Since(begun).Seconds()}
	after, err := processorSeconds(pid)
	if err != nil {
		return m, err
	}
	m.ServerCPUs = after - before
	if m.ServerKB, err = residentKB(pid); err != nil {
		return m, err
	}
	const asks = 301
	var took []float64
	for range asks {
		asked := time.Now()
		if _, err := other.Exists(ctx, "/growth"); err != nil {
			return m, err
		}
		took = append(took, float64(time.Since(asked).Microseconds()))
	}
	m.ExistsP50 = median(took)
	return m, nil
}

// processorSeconds returns how long a process has computed.
func processorSeconds(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(after)
	const user, system, perSecond = 11, 12, 100 // proc(5); Linux counts hundredths
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields, expected more", pid, len(fields))
	}
	u, err := strconv.ParseFloat(fields[user], 64)
	if err != nil {
		return 0, err
	}
	k, err := strconv.ParseFloat(fields[system], 64)
	return (u + k) / perSecond, err
}

// residentKB returns the resident memory of a process.
func residentKB(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(data), "VmRSS:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0, fmt.Errorf("/proc/%d/status: no VmRSS", pid)
	}
	return strconv.ParseFloat(fields[0], 64)
}

// inParallel calls fn for each number below n, 32 at a time, and returns one of the errors.
func inParallel(n int, fn func(i int) error) error {
	const window = 32
	var wg sync.WaitGroup
	failures := make(chan error, window)
	for first := range window {
		wg.Go(func() {
			for i := first; i < n; i += window {
				if err := fn(i); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	return <-failures
}

func growSessions(ctx context.Context, at servers, _ string, n int) (open closers, err error) {
	var mu sync.Mutex
	err = inParallel(n, func(int) error {
		client, err := connectSelf(ctx, at)
		if err != nil {
			return err
		}
		mu.Lock()
		open = append(open, client.Close)
		mu.Unlock()
		return nil
	})
	return open, err
}

func growLocks(ctx context.Context, at servers, path string, n int) (closers, error) {
	client, err := connectSelf(ctx, at)
	if err != nil {
		return nil, err
	}
	return closers{client.Close}, inParallel(n, func(i int) error {
		mutex, err := locks.NewInterProcessMutex(client, path+"/"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		_, err = mutex.Acquire(ctx)
		return err
	})
}

// growWaiters has n acquisitions of ten clients wait behind one holder.
func growWaiters(ctx context.Context, at servers, path string, n int) (open closers, err error) {
	holder, err := connectSelf(ctx, at)
	if err != nil {
		return nil, err
	}
	open = append(open, holder.Close)
	mutex, err := locks.NewInterProcessMutex(holder, path)
	if err != nil {
		return open, err
	}
	if _, err := mutex.Acquire(ctx); err != nil {
		return open, err
	}
	waiting, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	open = append(open, func() error { cancel(); wg.Wait(); return nil })
	for i := range min(n, 10) {
		client, err := connectSelf(ctx, at)
		if err != nil {
			return open, err
		}
		open = append(open[:len(open)-1], client.Close, open[len(open)-1]) // the waiters end first
		mutex, err := locks.NewInterProcessMutex(client, path)
		if err != nil {
			return open, err
		}
		for j := i; j < n; j += min(n, 10) {
			wg.Go(func() { _, _ = mutex.Acquire(waiting) }) // it ends with its context
		}
	}
	for {
		stat, err := holder.Exists(ctx, path)
		if err != nil || stat != nil && int(stat.NumChildren) == n+1 {
			return open, err
		}
	}
}

func growInstances(ctx context.Context, at servers, path string, n int) (closers, error) {
	client, err := connectSelf(ctx, at)
	if err != nil {
		return nil, err
	}
	open := closers{client.Close}
	services, err := discovery.NewServiceDiscovery[any](client, path, nil)
	if err != nil {
		return open, err
	}
	return append(open, services.Close), inParallel(n, func(int) error {
		return services.Register(ctx, discovery.NewInstance[any]("growth", "192.0.2.1", 8080))
	})
}

// growCacheNodes creates n znodes of 100 bytes, and counts from the start of a cache of them.
func growCacheNodes(ctx context.Context, at servers, path string, n int) (closers, error) {
	client, err := connectSelf(ctx, at)
	if err != nil {
		return nil, err
	}
	open := closers{client.Close}
	if err := createChildren(ctx, client, path, n); err != nil {
		return open, err
	}
	followed, err := cache.NewCuratorCache(client, path)
	if err != nil {
		return open, err
	}
	if err := followed.Start(); err != nil {
		return open, err
	}
	return append(open, followed.Close), followed.WaitFor(ctx, func(c *cache.CuratorCache) bool { return c.Size() > n }) // the folder counts
}

func createChildren(ctx context.Context, client *framework.Framework, path string, n int) error {
	data := make([]byte, 100)
	return inParallel(n, func(i int) error {
		_, err := client.Create(ctx, path+"/"+strconv.Itoa(i), data, framework.CreatingParentsIfNeeded())
		return err
	})
}

// growWatches has one connection of go-zookeeper watch n znodes that are not there.
func growWatches(_ context.Context, at servers, path string, n int) (closers, error) {
	conn, _, err := zk.Connect([]string{at.zookeeper}, sessionTimeout, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	open := closers{func() error { conn.Close(); return nil }}
	return open, inParallel(n, func(i int) error {
		_, _, _, err := conn.ExistsW(path + "-" + strconv.Itoa(i))
		return err
	})
}
