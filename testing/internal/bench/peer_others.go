// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
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
func runEtcd(ctx context.Context, at servers, l load, path string) (_ result, err error) {
	var lockers []locker
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	for range l.Clients {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{at.etcd}, DialTimeout: sessionTimeout})
		if err != nil {
			return result{}, err
		}
		open = append(open, client.Close)
		for range l.Goroutines {
			session, err := concurrency.NewSession(client, concurrency.WithTTL(int(sessionTimeout/time.Second)))
			if err != nil {
				return result{}, err
			}
			open = append(open, session.Close)
			mutex := concurrency.NewMutex(session, path)
			lockers = append(lockers, func(ctx context.Context, _ bool) (func(context.Context) error, error) {
				return mutex.Unlock, mutex.Lock(ctx)
			})
		}
	}
	return drive(ctx, l, lockers)
}

// runRedsync measures Redsync on one Redis server: it has no queue, and no guarantee
// like that of the others.
func runRedsync(ctx context.Context, at servers, l load, path string) (_ result, err error) {
	var lockers []locker
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	for range l.Clients {
		client := redisclient.NewClient(&redisclient.Options{Addr: at.redis})
		open = append(open, client.Close)
		locks := redsync.New(goredis.NewPool(client))
		for range l.Goroutines {
			mutex := locks.NewMutex(path, redsync.WithExpiry(sessionTimeout))
			lockers = append(lockers, func(ctx context.Context, _ bool) (func(context.Context) error, error) {
				return func(ctx context.Context) error {
					_, err := mutex.UnlockContext(ctx)
					return err
				}, mutex.LockContext(ctx)
			})
		}
	}
	return drive(ctx, l, lockers)
}

// runRedislock measures Redislock, of which the same is to be said.
func runRedislock(ctx context.Context, at servers, l load, path string) (_ result, err error) {
	var lockers []locker
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	for range l.Clients {
		client := redisclient.NewClient(&redisclient.Options{Addr: at.redis})
		open = append(open, client.Close)
		locks := redislock.New(client)
		for range l.Goroutines {
			lockers = append(lockers, func(ctx context.Context, _ bool) (func(context.Context) error, error) {
				lock, err := locks.Obtain(ctx, strings.TrimPrefix(path, "/"), sessionTimeout, nil)
				if err != nil {
					return nil, err
				}
				return lock.Release, nil
			})
		}
	}
	return drive(ctx, l, lockers)
}
