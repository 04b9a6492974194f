// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// How a round ends: all faults are undone, the workers go on in peace for a while, make a last turn
// that must succeed, and stop. A node that the servers still have then is left over.
const (
	calmTime    = 5 * time.Second
	settleTime  = 30 * time.Second // for what is deleted in the background
	settleEvery = 100 * time.Millisecond
)

// round is one life of a cluster.
type round struct {
	record  roundRecord
	cluster *cluster
}

// runRound runs a round with faults for so long, and returns its record. An error is what
// kept it from being a round at all.
func runRound(ctx context.Context, progress progress, folder string, s setup, chosen []fault, pair bool, length time.Duration) (roundRecord, error) {
	r := &round{record: roundRecord{
		Folder: filepath.Base(folder), Setup: s.String(), SessionTimeout: int64(sessionTimeout), Tick: int64(tick),
		Locks: s.locks, Sets: map[string][]string{}, Start: monotonic(), WallOffset: wallOffset(),
	}}
	progress("%s: %v, %d locks, %d clients, seed %d", r.record.Folder, s, len(s.locks), s.clients, s.seed)
	var err error
	if r.cluster, err = startCluster(ctx, folder, s); err != nil {
		return r.record, err
	}
	version, err := r.cluster.ensemble.Server(0).Version(ctx)
	if err != nil {
		return r.record, errors.Join(err, r.cluster.close())
	}
	r.record.ZooKeeper = version.String()
	faulty, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	plan := schedule{random: rand.New(rand.NewPCG(s.seed, 2)), chosen: chosen, pair: pair, progress: progress, start: r.record.Start}
	if len(chosen) == 0 {
		<-faulty.Done()
	} else {
		r.record.Faults = plan.run(faulty, r.cluster)
	}
	if err := ctx.Err(); err != nil {
		return r.record, errors.Join(err, r.cluster.close())
	}
	return r.record, errors.Join(r.end(ctx), r.cluster.close())
}

// String is how a setup is named in reports.
func (s setup) String() string {
	words := []string{"plain", "no fsync"}
	if s.tls {
		words[0] = "tls"
	}
	if s.fsync {
		words[1] = "fsync"
	}
	if s.guarded {
		words = append(words, "guarded")
	}
	return strings.Join(words, ", ")
}

// end brings the round to its end, and collects what is left.
func (r *round) end(ctx context.Context) error {
	c := r.cluster
	r.record.Clients = c.started
	c.network.HealAll()
	r.record.Calm = monotonic()
	<-time.After(calmTime)
	answers, err := orderAll(c.clients, order{Do: doFinish})
	for i, answer := range answers {
		for _, lock := range answer.Stuck {
			r.record.Stuck = append(r.record.Stuck, c.clients[i].config.Name+" "+lock)
		}
	}
	errs := []error{err, r.readSets(ctx)}
	r.record.Left, err = r.settle(ctx)
	errs = append(errs, err, c.endClients())
	r.record.After, err = r.settle(ctx)
	r.record.End = monotonic()
	return errors.Join(append(errs, err, c.copyLogs("log"))...)
}

// readSets reads what the holders have written.
func (r *round) readSets(ctx context.Context) error {
	for _, spec := range r.cluster.locks {
		if !workloadOf(spec).exclusive {
			continue
		}
		for _, name := range spec.protects() {
			values, err := setOf(r.cluster.admin, name).values(ctx)
			if err != nil {
				return fmt.Errorf("nemesis: set of %s: %w", name, err)
			}
			r.record.Sets[name] = values
		}
	}
	return nil
}

// settle waits until nothing is left, at most for a while, and returns what is.
func (r *round) settle(ctx context.Context) (left leftovers, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	err = errors.New("nemesis: what is left was never counted")
	for {
		count, failure := r.count(ctx)
		switch {
		case failure == nil:
			left, err = count, nil
		case err != nil: // and never counted
			err = fmt.Errorf("nemesis: count what is left: %w", failure)
		}
		if failure == nil && count.none() || ctx.Err() != nil {
			return left, err
		}
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
		}
	}
}

// count asks the servers what they have.
func (r *round) count(ctx context.Context) (left leftovers, err error) {
	servers := r.cluster.ensemble.Servers()
	have := make(map[string]int) // how many servers have an ephemeral node
	for _, s := range servers {
		figures, err := s.Mntr(ctx)
		if err != nil {
			return left, err
		}
		watches, err := strconv.Atoi(figures["zk_watch_count"])
		if err != nil {
			return left, fmt.Errorf("nemesis: mntr of %v: %w", s, err)
		}
		left.Watches += watches
		dump, err := s.FourLetterWord(ctx, "dump")
		if err != nil {
			return left, err
		}
		for _, path := range ephemerals(dump) {
			have[path]++
		}
	}
	for path, n := range have {
		if 2*n > len(servers) {
			left.Nodes = append(left.Nodes, path)
		} else {
			left.Phantoms = append(left.Phantoms, path)
		}
	}
	slices.Sort(left.Phantoms)
	left.Ephemerals = len(left.Nodes)
	lockNodes, err := r.lockNodes(ctx, left.Phantoms)
	left.LockNodes = len(lockNodes)
	left.Nodes = append(left.Nodes, lockNodes...)
	slices.Sort(left.Nodes)
	left.Nodes = slices.Compact(left.Nodes)
	return left, err
}

// ephemerals are the paths that the four letter word dump lists, each in a line of its own
// that begins with a tabulator, below the session that has them.
func ephemerals(dump string) (paths []string) {
	_, list, _ := strings.Cut(dump, "Sessions with Ephemerals")
	for line := range strings.Lines(list) {
		if path, ok := strings.CutPrefix(line, "\t/"); ok {
			paths = append(paths, "/"+strings.TrimSpace(path))
		}
	}
	return paths
}

// lockNodes are the paths of what is below the folders of all locks, without the phantoms.
func (r *round) lockNodes(ctx context.Context, phantoms []string) (paths []string, err error) {
	for _, spec := range r.cluster.locks {
		for _, folder := range spec.folders() {
			names, err := r.cluster.admin.Children(ctx, folder)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return nil, err
			}
			for _, name := range names {
				if node := folder + "/" + name; !slices.Contains(phantoms, node) {
					paths = append(paths, node)
				}
			}
		}
	}
	return paths, nil
}

// copyLogs copies the transaction logs of all servers into a folder beside the histories.
func (c *cluster) copyLogs(folder string) error {
	for _, s := range c.ensemble.Servers() {
		files, err := filepath.Glob(filepath.Join(s.DataDir(), "version-2", "log.*"))
		if err != nil {
			return fmt.Errorf("nemesis: %w", err)
		}
		// What the server itself has to say is for people.
		if err := copyLog(s.LogFile(), filepath.Join(c.folder, folder, strconv.Itoa(s.ID()))); err != nil {
			return fmt.Errorf("nemesis: output of %v: %w", s, err)
		}
		for _, file := range files {
			if err := copyLog(file, filepath.Join(c.folder, folder, strconv.Itoa(s.ID()))); err != nil {
				return fmt.Errorf("nemesis: log of %v: %w", s, err)
			}
		}
	}
	return nil
}

// copyLog copies a file without the zeros at its end, which a server puts there in advance.
func copyLog(file, folder string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	end := len(text)
	for end > 0 && text[end-1] == 0 {
		end--
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, filepath.Base(file)), text[:end], 0o600)
}
