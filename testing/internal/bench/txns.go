// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/txn"
)

// txns is the scenario of optimistic transactions. A turn moves one from an account to another, after it
// has read all of them. In the end they must still add up to 0.
const (
	txns     = "txn"
	accounts = 4
)

var txnMetrics = []metric{turnsPerSecond, turnMedian, requests, clientCPU, allocs}

// account is the name of the n-th account.
func account(path string, n int) string { return fmt.Sprintf("%s/account-%d", path, n) }

// move returns the accounts that a turn takes from and gives to.
func move() (from, to int) {
	from = rand.IntN(accounts)
	return from, (from + 1 + rand.IntN(accounts-1)) % accounts
}

// balance is what an account has, in text.
func balance[T string | []byte](data T) (int, error) { return strconv.Atoi(string(data)) }

// runTurns drives one function for each client, and then asks for the sum of the accounts.
func runTurns(ctx context.Context, l load, turns []func(context.Context) error, sum func() (int, error)) (result, error) {
	var lockers []locker
	for _, turn := range turns {
		lockers = append(lockers, func(ctx context.Context, _ bool) (func(context.Context) error, error) {
			return func(context.Context) error { return nil }, turn(ctx)
		})
	}
	r, err := drive(ctx, l, lockers)
	if err != nil {
		return r, err
	}
	switch all, err := sum(); {
	case err != nil:
		return r, err
	case all != 0:
		return r, fmt.Errorf("the accounts add up to %d, expected 0: a transaction was lost", all)
	}
	return r, nil
}

// runSelfTxn measures package txn.
func runSelfTxn(ctx context.Context, at servers, l load, path string) (_ result, err error) {
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	var paths []string
	for n := range accounts {
		paths = append(paths, account(path, n))
	}
	var turns []func(context.Context) error
	var client *framework.Framework
	for range l.Clients {
		client, err = connectSelf(ctx, at)
		if err != nil {
			return result{}, err
		}
		own := client
		open = append(open, own.Close)
		turns = append(turns, func(ctx context.Context) error {
			return txn.Do(ctx, own, func(tx *txn.Tx) error {
				if err := tx.Prefetch(paths...); err != nil {
					return err
				}
				from, to := move()
				return errors.Join(change(tx, paths[from], -1), change(tx, paths[to], 1))
			})
		})
	}
	for _, path := range paths {
		if _, err := client.Create(ctx, path, []byte("0"), framework.CreatingParentsIfNeeded()); err != nil {
			return result{}, err
		}
	}
	return runTurns(ctx, l, turns, func() (sum int, err error) {
		for _, path := range paths {
			data, err := client.Get(ctx, path)
			if err != nil {
				return 0, err
			}
			n, err := balance(data)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	})
}

// change adds to an account.
func change(tx *txn.Tx, path string, by int) error {
	data, err := tx.Get(path)
	if err != nil {
		return err
	}
	n, err := balance(data)
	if err != nil {
		return err
	}
	return tx.Set(path, strconv.AppendInt(nil, int64(n+by), 10))
}

// runRawTxn measures the same by hand: reads, and a multi on the versions that were read, again at once
// after a conflict. It has no protection against a znode that was deleted and created again.
func runRawTxn(ctx context.Context, at servers, l load, path string) (_ result, err error) {
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	var turns []func(context.Context) error
	var conn *zk.Conn
	for range l.Clients {
		if conn, err = connect(ctx, at); err != nil {
			return result{}, err
		}
		own := conn
		open = append(open, func() error { own.Close(); return nil })
		turns = append(turns, func(ctx context.Context) error {
			for ctx.Err() == nil {
				if err := moveByHand(own, path); !errors.Is(err, zk.ErrBadVersion) {
					return err
				}
			}
			return context.Cause(ctx)
		})
	}
	if err := makeFolder(conn, path); err != nil {
		return result{}, err
	}
	for n := range accounts {
		if _, err := conn.Create(account(path, n), []byte("0"), 0, zk.WorldACL(zk.PermAll)); err != nil {
			return result{}, err
		}
	}
	return runTurns(ctx, l, turns, func() (sum int, err error) {
		for n := range accounts {
			data, _, err := conn.Get(account(path, n))
			if err != nil {
				return 0, err
			}
			own, err := balance(data)
			if err != nil {
				return 0, err
			}
			sum += own
		}
		return sum, nil
	})
}

func moveByHand(conn *zk.Conn, path string) error {
	from, to := move()
	var ops []any
	for n := range accounts {
		data, stat, err := conn.Get(account(path, n))
		if err != nil {
			return err
		}
		has, err := balance(data)
		switch {
		case err != nil:
			return err
		case n == from:
			has--
		case n == to:
			has++
		default:
			ops = append(ops, &zk.CheckVersionRequest{Path: account(path, n), Version: stat.Version})
			continue
		}
		ops = append(ops, &zk.SetDataRequest{Path: account(path, n), Data: strconv.AppendInt(nil, int64(has), 10), Version: stat.Version})
	}
	_, err := conn.Multi(ops...)
	return err
}

// runEtcdTxn measures the STM of etcd's client.
func runEtcdTxn(ctx context.Context, at servers, l load, path string) (_ result, err error) {
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	var turns []func(context.Context) error
	var client *clientv3.Client
	var keys []string
	for n := range accounts {
		keys = append(keys, account(path, n))
	}
	for range l.Clients {
		if client, err = clientv3.New(clientv3.Config{Endpoints: []string{at.etcd}, DialTimeout: sessionTimeout}); err != nil {
			return result{}, err
		}
		own := client
		open = append(open, own.Close)
		turns = append(turns, func(ctx context.Context) error {
			_, err := concurrency.NewSTM(own, func(tx concurrency.STM) error {
				from, to := move()
				has, err1 := balance(tx.Get(keys[from]))
				gets, err2 := balance(tx.Get(keys[to]))
				if err := errors.Join(err1, err2); err != nil {
					return err
				}
				tx.Put(keys[from], strconv.Itoa(has-1))
				tx.Put(keys[to], strconv.Itoa(gets+1))
				return nil
			}, concurrency.WithPrefetch(keys...), concurrency.WithAbortContext(ctx))
			return err
		})
	}
	for _, key := range keys {
		if _, err := client.Put(ctx, key, "0"); err != nil {
			return result{}, err
		}
	}
	return runTurns(ctx, l, turns, func() (sum int, err error) {
		got, err := client.Get(ctx, path+"/", clientv3.WithPrefix())
		if err != nil {
			return 0, err
		}
		for _, kv := range got.Kvs {
			n, err := balance(kv.Value)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	})
}

// wholeFolder is the scenario of a folder that is read with all its data. A turn reads it once.
const wholeFolder = "whole-folder"

var folderMetrics = []metric{turnMedian, requests, bytesPerTurn, clientCPU, allocs}

// runSelfFolder measures ChildrenData.
func runSelfFolder(ctx context.Context, at servers, l load, path string) (result, error) {
	return runFolder(ctx, at, l, path, func(ctx context.Context, client *framework.Framework) (int, error) {
		all, err := client.ChildrenData(ctx, path, nil)
		return len(all), err
	})
}

// runListAndGet measures a list, and then a read of each child after the other.
func runListAndGet(ctx context.Context, at servers, l load, path string) (result, error) {
	return runFolder(ctx, at, l, path, func(ctx context.Context, client *framework.Framework) (read int, err error) {
		names, err := client.Children(ctx, path)
		for ; err == nil && read < len(names); read++ {
			_, err = client.Get(ctx, framework.JoinPath(path, names[read]))
		}
		return read, err
	})
}

// runListAndPipeline measures a list, and then all reads in a pipeline.
func runListAndPipeline(ctx context.Context, at servers, l load, path string) (result, error) {
	return runFolder(ctx, at, l, path, func(ctx context.Context, client *framework.Framework) (int, error) {
		names, err := client.Children(ctx, path)
		if err != nil {
			return 0, err
		}
		reads, data := make([]framework.Read, len(names)), make([][]byte, len(names))
		for i, name := range names {
			reads[i] = framework.ReadData(framework.JoinPath(path, name), &data[i])
		}
		return len(names), client.Pipeline(ctx, reads...)
	})
}

func runFolder(ctx context.Context, at servers, l load, path string, read func(context.Context, *framework.Framework) (int, error)) (_ result, err error) {
	client, err := connectSelf(ctx, at)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if _, err := makePaths(ctx, at, l, path); err != nil {
		return result{}, err
	}
	return drive(ctx, l, []locker{func(ctx context.Context, _ bool) (func(context.Context) error, error) {
		n, err := read(ctx, client)
		if err == nil && n != l.Paths {
			err = fmt.Errorf("%s: %d children were read, expected %d", strings.TrimPrefix(path, "/"), n, l.Paths)
		}
		return func(context.Context) error { return nil }, err
	}})
}
