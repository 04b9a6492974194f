// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redisclient "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// runEtcd measures the mutex of etcd's client. A key belongs to a session, so every
// goroutine has one.
func runEtcd(ctx context.Context, at servers, l load, path string) (result, error) {
	return overClients(ctx, l, func(open *closers) (func() (locker, error), func() (int, error), error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{at.etcd}, DialTimeout: sessionTimeout})
		if err != nil {
			return nil, nil, err
		}
		*open = append(*open, client.Close)
		return func() (locker, error) {
			session, err := concurrency.NewSession(client, concurrency.WithTTL(int(sessionTimeout/time.Second)))
			if err != nil {
				return nil, err
			}
			*open = append(*open, session.Close)
			mutex := concurrency.NewMutex(session, path)
			return func(ctx context.Context, _ bool) (func(context.Context) error, error) {
				return mutex.Unlock, mutex.Lock(ctx)
			}, nil
		}, nil, nil
	})
}

// overRedis runs a load on one Redis server. Its locks have no queue, and no guarantee like that of the others.
func overRedis(ctx context.Context, at servers, l load, of func(*redisclient.Client) func() locker) (result, error) {
	return overClients(ctx, l, func(open *closers) (func() (locker, error), func() (int, error), error) {
		client := redisclient.NewClient(&redisclient.Options{Addr: at.redis})
		*open = append(*open, client.Close)
		lock := of(client)
		return func() (locker, error) { return lock(), nil }, nil, nil
	})
}

// runRedsync measures Redsync.
func runRedsync(ctx context.Context, at servers, l load, path string) (result, error) {
	return overRedis(ctx, at, l, func(client *redisclient.Client) func() locker {
		locks := redsync.New(goredis.NewPool(client))
		return func() locker {
			mutex := locks.NewMutex(path, redsync.WithExpiry(sessionTimeout))
			unlock := func(ctx context.Context) error {
				_, err := mutex.UnlockContext(ctx)
				return err
			}
			return func(ctx context.Context, _ bool) (func(context.Context) error, error) {
				return unlock, mutex.LockContext(ctx)
			}
		}
	})
}

// runRedislock measures Redislock.
func runRedislock(ctx context.Context, at servers, l load, path string) (result, error) {
	return overRedis(ctx, at, l, func(client *redisclient.Client) func() locker {
		locks := redislock.New(client)
		return func() locker {
			return func(ctx context.Context, _ bool) (func(context.Context) error, error) {
				lock, err := locks.Obtain(ctx, strings.TrimPrefix(path, "/"), sessionTimeout, nil)
				if err != nil {
					return nil, err
				}
				return lock.Release, nil
			}
		}
	})
}
