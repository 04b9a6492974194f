// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

const sessionTimeout = 10 * time.Second

// connectSelf connects a client of this library.
func connectSelf(ctx context.Context, at servers, opts ...framework.Option) (*framework.Framework, error) {
	opts = append(opts, framework.WithSessionTimeout(sessionTimeout), framework.WithLogger(slog.New(slog.DiscardHandler)))
	if at.tap != nil {
		opts = append(opts, framework.WithDialer(at.tap.dial))
	}
	return framework.Connect(ctx, at.zookeeper, opts...)
}

// runSelf measures this library.
func runSelf(ctx context.Context, at servers, l load, path string) (result, error) {
	return selfWith(ctx, at, l, path, nil)
}

// runSelfTelemetry measures this library with OpenTelemetry's SDK: each span is recorded, and dropped
// in batches; the instruments are aggregated.
func runSelfTelemetry(ctx context.Context, at servers, l load, path string) (_ result, err error) {
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	defer func() { err = errors.Join(err, tracers.Shutdown(ctx), meters.Shutdown(ctx)) }()
	return selfWith(ctx, at, l, path, []framework.Option{framework.WithTracerProvider(tracers), framework.WithMeterProvider(meters)})
}

// runSelfHandoff measures this library with up to 100 holds under one node.
func runSelfHandoff(ctx context.Context, at servers, l load, path string) (result, error) {
	return selfWith(ctx, at, l, path, nil, locks.WithLocalHandoff(100))
}

func selfWith(
	ctx context.Context, at servers, l load, path string, clientOpts []framework.Option, opts ...locks.Option,
) (result, error) {
	return overClients(ctx, l, func(open *closers) (func() (locker, error), func() (int, error), error) {
		client, err := connectSelf(ctx, at, slices.Clone(clientOpts)...)
		if err != nil {
			return nil, nil, err
		}
		*open = append(*open, client.Close)
		lock, err := selfLocker(client, l, path, opts)
		waiting := func() (int, error) {
			names, err := client.Children(ctx, path)
			return len(names), err
		}
		return func() (locker, error) { return lock, nil }, waiting, err
	})
}

// overClients runs a load. A client that is opened has the locker of each of its goroutines, and counts what waits for a queue.
func overClients(
	ctx context.Context, l load, open func(*closers) (lock func() (locker, error), waiting func() (int, error), err error),
) (_ result, err error) {
	var lockers []locker
	var waiting func() (int, error)
	var opened closers
	defer func() { err = errors.Join(err, opened.close()) }()
	for range l.Clients {
		lock, count, err := open(&opened)
		if err != nil {
			return result{}, err
		}
		waiting = count
		for range l.Goroutines {
			locker, err := lock()
			if err != nil {
				return result{}, err
			}
			lockers = append(lockers, locker)
		}
	}
	if l.Queue {
		return drain(ctx, l, lockers[0], lockers, waiting)
	}
	return drive(ctx, l, lockers)
}

// selfLocker returns the lock that the load is about.
func selfLocker(client *framework.Framework, l load, path string, opts []locks.Option) (locker, error) {
	var write, read locks.InterProcessLock
	var err error
	switch {
	case l.Leases > 0:
		write, err = locks.NewInterProcessSemaphoreV2(client, path, locks.FixedLeases(l.Leases), opts...)
	case l.Readers > 0:
		var rw *locks.InterProcessReadWriteLock
		if rw, err = locks.NewInterProcessReadWriteLock(client, path, opts...); err == nil {
			write, read = rw.WriteLock(), rw.ReadLock()
		}
	default:
		write, err = locks.NewInterProcessMutex(client, path, opts...)
	}
	return func(ctx context.Context, reads bool) (func(context.Context) error, error) {
		lock := write
		if reads {
			lock = read
		}
		lease, err := lock.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}, err
}

// runZKLock measures the lock of go-zookeeper.
func runZKLock(ctx context.Context, at servers, l load, path string) (result, error) {
	return overConns(ctx, at, l, path, func(conn *zk.Conn, path string) locker {
		return func(ctx context.Context, _ bool) (func(context.Context) error, error) {
			stop := context.AfterFunc(ctx, conn.Close) // it knows no contexts: this ends its wait
			defer stop()
			lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll)) // one is not for several goroutines
			if err := lock.Lock(); err != nil {
				return nil, err
			}
			return func(context.Context) error { return lock.Unlock() }, nil
		}
	})
}

// runRaw measures what the server needs for the two writes that no lock can do
// without, one after the other on one connection.
func runRaw(ctx context.Context, at servers, l load, path string) (result, error) {
	return overConns(ctx, at, l, path, func(conn *zk.Conn, path string) locker {
		return func(context.Context, bool) (func(context.Context) error, error) {
			node, err := conn.Create(path+"/node-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			if err != nil {
				return nil, err
			}
			return func(context.Context) error { return conn.Delete(node, -1) }, nil
		}
	})
}

// overConns runs a load over connections of go-zookeeper.
func overConns(ctx context.Context, at servers, l load, path string, of func(conn *zk.Conn, path string) locker) (result, error) {
	return overClients(ctx, l, func(open *closers) (func() (locker, error), func() (int, error), error) {
		conn, err := connect(ctx, at)
		if err != nil {
			return nil, nil, err
		}
		*open = append(*open, func() error { conn.Close(); return nil })
		waiting := func() (int, error) {
			names, _, err := conn.Children(path)
			return len(names), err
		}
		return func() (locker, error) { return of(conn, path), nil }, waiting, makeFolder(conn, path)
	})
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect returns when there is a session.
func connect(ctx context.Context, at servers) (*zk.Conn, error) {
	conn, events, err := zk.Connect(strings.Split(at.zookeeper, ","), sessionTimeout, zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, context.Cause(ctx)
		}
	}
}

func makeFolder(conn *zk.Conn, path string) error {
	_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}
