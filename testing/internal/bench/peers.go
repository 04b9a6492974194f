// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// peer is one implementation of locks, or what it is compared with.
type peer struct {
	name  string
	store store
	kinds []string // of the scenarios that it has a part in
	run   func(ctx context.Context, at servers, l load, path string) (result, error)

	missing func() error // what has to be installed, nil if nothing
}

// store is a kind of server.
type store int

const (
	zookeeper store = iota
	etcd
	redis
)

// errMissing is the error of a peer that is not installed.
var errMissing = errors.New("not installed")

const (
	uncontended = "uncontended"
	contended   = "contended"
	herd        = "herd"
	oneProcess  = "one-process"
	queue       = "queue"
	longQueue   = "long-queue"
	readWrite   = "rw"
	semaphore   = "semaphore"

	election       = "election"
	electionKilled = "election-killed"
	electorate     = "electorate"
)

// verbs are the scenarios of single requests.
var verbs = []string{verbGet, verbExists, verbSet, verbCreate, bulkGet, bulkExists, bulkSet}

// peers are all there are, in the order in which they are shown.
var peers = []peer{
	{"self", zookeeper, []string{uncontended, contended, herd, oneProcess, queue, longQueue, readWrite, semaphore}, runSelf, nil},
	{"self-telemetry", zookeeper, []string{uncontended, oneProcess}, runSelfTelemetry, nil},
	{"self-verbs", zookeeper, verbs, runSelfVerb, nil},
	{"raw-verbs", zookeeper, verbs, runRawVerb, nil},
	{"java-verbs", zookeeper, verbs, runJavaVerb, javaMissing},
	{"self-handoff", zookeeper, []string{oneProcess}, runSelfHandoff, nil},
	{"curator", zookeeper, []string{uncontended, contended, oneProcess, queue, readWrite, semaphore}, runJava, javaMissing},
	{"kazoo", zookeeper, []string{uncontended, contended, oneProcess, semaphore}, runPython, pythonMissing},
	{"zklock", zookeeper, []string{uncontended, contended, herd, oneProcess, queue, longQueue}, runZKLock, nil},
	{"etcd", etcd, []string{uncontended, contended, oneProcess}, runEtcd, etcdMissing},
	{"redsync", redis, []string{uncontended}, runRedsync, redisMissing},
	{"redislock", redis, []string{uncontended}, runRedislock, redisMissing},
	{"raw", zookeeper, []string{uncontended}, runRaw, nil},
	{"self-latch", zookeeper, []string{election, electionKilled, electorate}, runElection, nil},
	{"curator-latch", zookeeper, []string{election, electionKilled}, runJava, javaMissing},
}

// selectPeers returns those with the names, comma-separated; all for "".
func selectPeers(names string) ([]peer, error) {
	if names == "" {
		return peers, nil
	}
	var chosen []peer
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(peers, func(p peer) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("peer %q, expected one of %s", name, peerNames())
		}
		chosen = append(chosen, peers[i])
	}
	return chosen, nil
}

func peerNames() string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// closers close, in reverse, what a peer has opened.
type closers []func() error

func (c closers) close() error {
	var errs []error
	for _, fn := range slices.Backward(c) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}

// checkInstalled returns what is missing for the peers, each with its package.
func checkInstalled(chosen []peer) error {
	var errs []error
	for _, p := range chosen {
		if p.missing == nil {
			continue
		}
		if err := p.missing(); err != nil {
			errs = append(errs, fmt.Errorf("peer %s: %w", p.name, err))
		}
	}
	return errors.Join(errs...)
}
