// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// The three ways to lock that tutorials of ZooKeeper compare, as short as they can be
// written with go-zookeeper. They are references for a measurement and nothing else:
// none survives a lost connection.

// runSameName has everybody try to create one node, and watch it where it exists.
// Whenever it goes, all wake up and one succeeds.
func runSameName(ctx context.Context, at servers, l load, path string) (result, error) {
	return overConns(ctx, at, l, path, func(conn *zk.Conn, path string) locker {
		name := path + "/lock"
		return func(ctx context.Context, _ bool) (func(context.Context) error, error) {
			for {
				_, err := conn.Create(name, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
				if err == nil {
					return func(context.Context) error { return conn.Delete(name, -1) }, nil
				}
				if !errors.Is(err, zk.ErrNodeExists) {
					return nil, err
				}
				there, _, gone, err := conn.ExistsW(name)
				if err != nil {
					return nil, err
				}
				if !there {
					continue
				}
				if err := await(ctx, gone); err != nil {
					return nil, err
				}
			}
		}
	})
}

// runChildrenWatchers has everybody queue up with a sequential node and watch the
// folder. With every change of it all wake up and list.
func runChildrenWatchers(ctx context.Context, at servers, l load, path string) (result, error) {
	return overConns(ctx, at, l, path, func(conn *zk.Conn, path string) locker {
		return inQueue(conn, path, func(path string) ([]string, <-chan zk.Event, error) {
			names, _, changed, err := conn.ChildrenW(path)
			return names, changed, err
		}, nil)
	})
}

// runTextbook has everybody queue up with a sequential node and watch the one before.
func runTextbook(ctx context.Context, at servers, l load, path string) (result, error) {
	return overConns(ctx, at, l, path, func(conn *zk.Conn, path string) locker {
		return inQueue(conn, path, func(path string) ([]string, <-chan zk.Event, error) {
			names, _, err := conn.Children(path)
			return names, nil, err
		}, func(before string) (<-chan zk.Event, error) {
			there, _, gone, err := conn.ExistsW(before)
			if err == nil && !there {
				return nil, errAgain
			}
			return gone, err
		})
	})
}

// errAgain is for a watch that would wait for nothing.
var errAgain = errors.New("look again")

// inQueue is a lock by the order of sequential nodes. What differs is what it waits for
// when its place is not the first: a change of the list, or of the one before.
func inQueue(
	conn *zk.Conn, path string, list func(path string) ([]string, <-chan zk.Event, error),
	watch func(before string) (<-chan zk.Event, error),
) locker {
	return func(ctx context.Context, _ bool) (func(context.Context) error, error) {
		node, err := conn.Create(path+"/node-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			return nil, err
		}
		name := node[strings.LastIndex(node, "/")+1:]
		for {
			names, changed, err := list(path)
			if err != nil {
				return nil, err
			}
			slices.Sort(names)
			place := slices.Index(names, name)
			if place < 0 {
				return nil, fmt.Errorf("%s has gone", node)
			}
			if place == 0 {
				return func(context.Context) error { return conn.Delete(node, -1) }, nil
			}
			if watch != nil {
				if changed, err = watch(path + "/" + names[place-1]); errors.Is(err, errAgain) {
					continue
				} else if err != nil {
					return nil, err
				}
			}
			if err := await(ctx, changed); err != nil {
				return nil, err
			}
		}
	}
}

func await(ctx context.Context, event <-chan zk.Event) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
