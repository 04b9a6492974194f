// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// The scenarios of single requests. A turn is one request; in a bulk, one path.
const (
	verbGet    = "get"
	verbExists = "exists"
	verbSet    = "set"
	verbCreate = "create"
	bulkGet    = "bulk-get"
	bulkExists = "bulk-exists"
	bulkSet    = "bulk-set"
)

var verbMetrics = []metric{turnsPerSecond, turnMedian, allocs, clientCPU}

// verbScenarios are each verb from 1, 64 and 1,000 goroutines of one client, and 10,000 known
// paths at once.
func verbScenarios() []scenario {
	var all []scenario
	for _, verb := range []string{verbGet, verbExists, verbSet, verbCreate} {
		for _, goroutines := range []int{1, 64, 1000} {
			// Requests exclude nothing, so as many as there are may be under way.
			all = append(all, scenario{verb, load{Clients: 1, Goroutines: goroutines, Leases: goroutines, Verb: verb, Paths: 100}, verbMetrics})
		}
	}
	for _, verb := range []string{bulkGet, bulkExists, bulkSet} {
		all = append(all, scenario{verb, load{Clients: 1, Goroutines: 1, Verb: verb, Paths: 10_000}, []metric{turnsPerSecond, allocs, clientCPU}})
	}
	return all
}

// verbPayload is the data of the znodes.
var verbPayload = make([]byte, 100)

// runSelfVerb measures one verb of this library.
func runSelfVerb(ctx context.Context, at servers, l load, path string) (_ result, err error) {
	client, err := connectSelf(ctx, at)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	paths, err := makePaths(ctx, at, l, path)
	if err != nil {
		return result{}, err
	}
	one := map[string]func(ctx context.Context, path string) error{
		verbGet:    func(ctx context.Context, path string) error { _, err := client.Get(ctx, path); return err },
		verbExists: func(ctx context.Context, path string) error { _, err := client.Exists(ctx, path); return err },
		verbSet:    func(ctx context.Context, path string) error { return client.Set(ctx, path, verbPayload) },
		verbCreate: func(ctx context.Context, path string) error {
			_, err := client.Create(ctx, path+"/", verbPayload, framework.WithMode(framework.EphemeralSequential))
			return err
		},
	}
	if !isBulk(l.Verb) {
		return driveVerb(ctx, l, paths, one[l.Verb])
	}
	return driveBulk(ctx, l, paths, func(ctx context.Context, paths []string) error {
		if l.Verb == bulkSet {
			return setAll(ctx, client, paths)
		}
		return readAll(ctx, client, l.Verb, paths)
	})
}

func setAll(ctx context.Context, client *framework.Framework, paths []string) error {
	ops := make([]framework.Op, len(paths))
	for i, path := range paths {
		ops[i] = framework.SetDataOp(path, verbPayload)
	}
	_, err := client.Bulk(ctx, ops)
	return err
}

// readAll reads the data of all paths, or their Stats.
func readAll(ctx context.Context, client *framework.Framework, verb string, paths []string) error {
	reads, data, stats := make([]framework.Read, len(paths)), make([][]byte, len(paths)), make([]*framework.Stat, len(paths))
	for i, path := range paths {
		if verb == bulkGet {
			reads[i] = framework.ReadData(path, &data[i])
		} else {
			reads[i] = framework.ReadStat(path, &stats[i])
		}
	}
	return client.Pipeline(ctx, reads...)
}

// bulkWindow is how many requests of a bulk are under way at a time.
const bulkWindow = 128

// runRawVerb measures the same requests of go-zookeeper. It has no bulk, so as many
// goroutines share the paths as a bulk of ours has requests under way.
func runRawVerb(ctx context.Context, at servers, l load, path string) (result, error) {
	conn, err := connect(ctx, at)
	if err != nil {
		return result{}, err
	}
	defer conn.Close()
	paths, err := makePaths(ctx, at, l, path)
	if err != nil {
		return result{}, err
	}
	call := map[string]func(path string) error{
		verbGet:    func(path string) error { _, _, err := conn.Get(path); return err },
		verbExists: func(path string) error { _, _, err := conn.Exists(path); return err },
		verbSet:    func(path string) error { _, err := conn.Set(path, verbPayload, -1); return err },
		verbCreate: func(path string) error {
			_, err := conn.Create(path+"/", verbPayload, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			return err
		},
	}
	call[bulkGet], call[bulkExists], call[bulkSet] = call[verbGet], call[verbExists], call[verbSet]
	one := call[l.Verb]
	if !isBulk(l.Verb) {
		return driveVerb(ctx, l, paths, func(_ context.Context, path string) error { return one(path) })
	}
	return driveBulk(ctx, l, paths, func(ctx context.Context, paths []string) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var next atomic.Int64
		var wg sync.WaitGroup
		for range bulkWindow {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(paths) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
					if err := one(paths[i]); err != nil {
						cancel(err)
					}
				}
			})
		}
		wg.Wait()
		return context.Cause(ctx)
	})
}

// runJavaVerb measures the same requests of ZooKeeper's own client. Its calls are asynchronous, so
// one thread has as many requests under way as the others have goroutines, and in a bulk all.
func runJavaVerb(ctx context.Context, at servers, l load, path string) (result, error) {
	if _, err := makePaths(ctx, at, l, path); err != nil {
		return result{}, err
	}
	return runSource(ctx, javaVerbsSource, "BenchVerbs.java", java(), at.zookeeper, path, l.Verb,
		strconv.Itoa(l.Goroutines), strconv.Itoa(l.Paths), strconv.FormatInt(l.Duration.Milliseconds(), 10))
}

func isBulk(verb string) bool { return slices.Contains([]string{bulkGet, bulkExists, bulkSet}, verb) }

// makePaths creates the znodes of a load, over a connection of its own.
func makePaths(ctx context.Context, at servers, l load, folder string) (_ []string, err error) {
	client, err := connectSelf(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if err := client.Mkdirs(ctx, folder); err != nil {
		return nil, err
	}
	paths, ops := make([]string, l.Paths), make([]framework.Op, l.Paths)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s/%d", folder, i)
		ops[i] = framework.CreateOp(paths[i], verbPayload)
	}
	_, err = client.Bulk(ctx, ops)
	return paths, err
}

// driveVerb has each goroutine make one call after another, until the time is over.
func driveVerb(ctx context.Context, l load, paths []string, call func(ctx context.Context, path string) error) (result, error) {
	lockers := make([]locker, l.Goroutines)
	for i := range lockers {
		next := i
		lockers[i] = func(ctx context.Context, _ bool) (func(context.Context) error, error) {
			next++
			return func(context.Context) error { return nil }, call(ctx, paths[next%len(paths)])
		}
	}
	return drive(ctx, l, lockers)
}

// driveBulk makes all calls at once, and again until the time is over.
func driveBulk(ctx context.Context, l load, paths []string, bulk func(ctx context.Context, paths []string) error) (result, error) {
	r := result{All: len(paths)}
	if err := bulk(ctx, paths); err != nil { // warms up
		return r, err
	}
	begun := &warm{time.Now(), costSoFar()}
	for r.Turns == 0 || time.Since(begun.at) < l.Duration {
		if err := bulk(ctx, paths); err != nil {
			return r, err
		}
		r.Turns += len(paths)
	}
	r.All += r.Turns
	r.Seconds = time.Since(begun.at).Seconds()
	r.spent(begun)
	return r, nil
}
