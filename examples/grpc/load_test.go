// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
)

// load calls a service and counts.
type load struct {
	mu       sync.Mutex
	answered map[string]int // calls by the address of the server
	failures []error
}

// run has callers call one after the other until ctx ends.
func (l *load) run(ctx context.Context, conn *grpc.ClientConn, callers int) {
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				l.one(ctx, conn)
			}
		})
	}
	all.Wait()
}

// one makes a call. A call that ctx has ended does not count.
func (l *load) one(ctx context.Context, conn *grpc.ClientConn) {
	var server peer.Peer
	_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, new(grpc_health_v1.HealthCheckRequest),
		grpc.Peer(&server), grpc.WaitForReady(true))
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, err)
		return
	}
	if l.answered == nil {
		l.answered = map[string]int{}
	}
	l.answered[server.Addr.String()]++
}

// counts returns how many calls each server has answered, and how many failed.
func (l *load) counts() (answered map[string]int, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.answered), len(l.failures)
}

// errors returns the errors of the calls that failed.
func (l *load) errors() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.failures)
}

// report says what has happened, in a line.
func (l *load) report() string {
	answered, failed := l.counts()
	total := failed
	var servers []string
	for _, id := range slices.Sorted(maps.Keys(answered)) {
		total += answered[id]
		servers = append(servers, fmt.Sprintf("%s=%d", id, answered[id]))
	}
	return fmt.Sprintf("calls=%d failed=%d answered by %s", total, failed, strings.Join(servers, " "))
}
