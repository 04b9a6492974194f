// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/partition"
)

const (
	oneOwner    promise = "two_owners"     // no partition is held twice at one time
	allOwned    promise = "unowned"        // when all is healed, each partition has a holder
	littleMoved promise = "moved_too_much" // and none moves when no member joins
)

// partitionWorkloads are the recipe of package partition.
var partitionWorkloads = []workload{
	{
		name: "partition", workers: 1, least: 60, folders: partitionFolders, promises: []promise{oneOwner, allOwned, littleMoved},
		calls: map[promise]promise{noOverlap: oneOwner}, find: wrongPartitions, prepare: preparePartition,
	},
}

const (
	partitionCount = 12
	membership     = 6 * time.Second // of a turn, at most
	calmMembership = 3 * time.Second // of the last turn, after all was found in order
)

func partitionNames() []string {
	names := make([]string, partitionCount)
	for i := range names {
		names[i] = fmt.Sprintf("p%02d", i)
	}
	return names
}

func partitionFolders(s lockSpec) []string {
	folders := []string{s.path() + "/members"}
	for _, name := range partitionNames() {
		folders = append(folders, s.path()+"/locks/"+name)
	}
	return folders
}

// What a member writes down besides its holds.
const (
	inOrder    eventKind = "inOrder"    // all is healed: the group is balanced, and each partition with its owner
	outOfOrder eventKind = "outOfOrder" // it did not become so; Error says what was wrong
	movedAway  eventKind = "movedAway"  // the partition in Value goes to another member
)

// preparePartition is a member for a while in each turn.
func preparePartition(w *worker) (func(context.Context), error) {
	var mu sync.Mutex // guards the turns of the worker
	return func(ctx context.Context) {
		began := monotonic()
		member, err := partition.New(w.client.framework, w.spec.path(), partition.Fixed(partitionNames()...),
			partition.WithLockOptions(locks.WithErrorPolicy(w.spec.Policy)), partition.WithSettle(200*time.Millisecond))
		if err != nil {
			w.client.giveUpOn(w.spec.Name)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			ended <- member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
				at := monotonic()
				mu.Lock()
				c := w.call(w.spec.Name+"#"+p.Name, "", false)
				mu.Unlock()
				c.asked = began
				w.holdPartition(ctx, c.granted(at, 0, c.lock, p.Lease), p.Name)
				return nil
			})
		}()
		if w.last {
			w.awaitOrder(ctx, member)
		} else {
			w.pause(w.upTo(membership))
		}
		cancel()
		if err := <-ended; w.last && !errors.Is(err, context.Canceled) {
			w.client.giveUpOn(fmt.Sprintf("%s (%v)", w.spec.Name, err))
		}
	}, nil
}

// holdPartition looks at the lease until the partition must go.
func (w *worker) holdPartition(ctx context.Context, h *held, name string) {
	for h.valid() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(lookEveryLong):
		}
	}
	if errors.Is(context.Cause(ctx), partition.ErrMoved) {
		w.client.history.add(event{Kind: movedAway, Lock: w.spec.Name, Value: name})
	}
	if h.valid() {
		h.record(event{Kind: releasing, LastValid: h.lastValid})
	}
	h.over = true
}

// awaitOrder waits until the group is in order with this member, and stays for a while.
func (w *worker) awaitOrder(ctx context.Context, member *partition.Member) {
	wrong := await(ctx, func(ctx context.Context) error {
		a, err := member.Assignment(ctx)
		if err != nil {
			return err
		}
		return disorder(a, member.ID())
	})
	if wrong != nil {
		w.client.history.add(event{Kind: outOfOrder, Lock: w.spec.Name, Error: wrong.Error()})
		return
	}
	w.client.history.add(event{Kind: inOrder, Lock: w.spec.Name})
	select {
	case <-ctx.Done():
	case <-time.After(calmMembership):
	}
}

// disorder says what is wrong with an assignment.
func disorder(a partition.Assignment, id string) error {
	var wrong []string
	if len(a.Partitions) != partitionCount {
		wrong = append(wrong, fmt.Sprintf("%d partitions", len(a.Partitions)))
	}
	for _, p := range a.Partitions {
		if p.OnItsWay() {
			wrong = append(wrong, fmt.Sprintf("%s is %s's, and %q has it", p.Name, p.Owner, p.Holder))
		}
	}
	joined := false
	for _, m := range a.Members {
		joined = joined || m.ID == id && m.Alive
	}
	switch {
	case len(wrong) > 0:
		return errors.New(strings.Join(wrong, ", "))
	case !a.Balanced || !joined:
		return fmt.Errorf("balanced: %v, joined: %v", a.Balanced, joined)
	default:
		return nil
	}
}

// wrongPartitions finds groups that did not come to order, and partitions that have moved after
// all members had found it in order: no member joins then, and a leave moves nothing between the
// others. A member that loses its session even then joins again, so such rounds prove nothing.
func wrongPartitions(r *roundReport, spec lockSpec) (found []violation) {
	var order int64
	var late []event
	for _, events := range r.events {
		for _, e := range events {
			switch {
			case specName(e.Lock) != spec.Name:
			case e.Kind == inOrder:
				order = max(order, e.At)
			case e.Kind == outOfOrder:
				found = append(found, violation{promise: allOwned, round: r, at: e.At, what: fmt.Sprintf("%s: %s: %s", spec.Name, e.Client, e.Error)})
			}
		}
	}
	if order == 0 || len(found) > 0 {
		return found
	}
	for _, events := range r.events {
		for _, e := range events {
			switch {
			case e.At <= order:
			case e.Kind == expired, e.Kind == lost && specName(e.Lock) == spec.Name:
				return found
			case e.Kind == movedAway && e.Lock == spec.Name:
				late = append(late, e)
			}
		}
	}
	for _, e := range late {
		found = append(found, violation{promise: littleMoved, round: r, at: e.At, what: fmt.Sprintf("%s: %s has moved from %s without need", spec.Name, e.Value, e.Client)})
	}
	return found
}
