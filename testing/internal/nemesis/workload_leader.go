// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
)

const (
	oneLeader promise = "two_leaders" // no two candidates lead at one time
	onceOnly  promise = "twice_run"   // no key is run again that was done
)

// leaderWorkloads are the recipes of package leader.
var leaderWorkloads = []workload{
	{
		name: "leader", workers: 1, exclusive: true, model: mutexModel, least: 60,
		promises: []promise{oneLeader}, calls: map[promise]promise{noOverlap: oneLeader}, prepare: prepareLeader,
	},
	{
		name: "once", workers: 1, least: 60, folders: noFolders,
		promises: []promise{onceOnly}, calls: map[promise]promise{noOverlap: onceOnly},
		find: twiceRun, findAtServers: wrongMarkers, prepare: prepareOnce,
	},
}

// noFolders says that a recipe keeps no folder that must be empty in the end.
func noFolders(lockSpec) []string { return nil }

// candidate is the latch of a worker.
type candidate struct {
	worker *worker
	latch  *leader.LeaderLatch
	stands int64 // since when, at the earliest, the node of its next leadership may exist
}

// prepareLeader stands for election all the time. A turn is a leadership, after
// which the latch resigns, or is closed and replaced by another.
func prepareLeader(w *worker) (func(context.Context), error) {
	c := &candidate{worker: w}
	if err := c.start(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		if h := c.await(ctx); h != nil {
			w.work(ctx, h)
			c.stands = monotonic()
			h.release(ctx)
		}
		if !w.last && w.random.IntN(10) != 0 {
			return
		}
		err := c.latch.Close()
		if !w.last {
			err = errors.Join(err, c.start())
		}
		if err != nil {
			w.client.giveUpOn(fmt.Sprintf("%s (%v)", w.spec.Name, err))
		}
	}, nil
}

func (c *candidate) start() (err error) {
	c.stands = monotonic()
	c.latch, err = leader.NewLeaderLatch(c.worker.client.framework, c.worker.spec.path(),
		leader.WithLockOptions(locks.WithErrorPolicy(c.worker.spec.Policy)))
	if err != nil {
		return err
	}
	return c.latch.Start()
}

// await waits until the latch leads, and returns nil if that takes too long.
func (c *candidate) await(ctx context.Context) *held {
	w := c.worker
	ctx, cancel := w.bounds(ctx)
	defer cancel()
	call := w.call(w.spec.Name, "", false)
	call.asked = c.stands
	lease, err := c.latch.Await(ctx)
	at := monotonic()
	if err != nil {
		call.failed(at, err)
		return nil
	}
	return call.granted(at, 0, w.spec.Name, lease)
}

// slot is how long a key is due: all processes have the clock in common.
const slot = 250 * time.Millisecond

// ran is the kind of the event that says how a run ended. Its Outcome is the outcome
// of the marker.
const ran eventKind = "ran"

var (
	errJobFailed = errors.New("the job has failed")
	errTooLate   = errors.New("the lock was lost before the job had begun")
)

// neverAgain reports whether a key may begin once only. The others may be run
// until one run succeeds.
func neverAgain(key string) bool { return strings.HasPrefix(key, "never-") }

// keyNow is the key that is due. In the last turn it is one that the worker
// has for itself, and so must run.
func (w *worker) keyNow() string {
	mode := "until-"
	if w.random.IntN(2) == 0 {
		mode = "never-"
	}
	if w.last {
		return "until-" + strings.ReplaceAll(w.name, "/", "-")
	}
	return mode + strconv.FormatInt(monotonic()/int64(slot), 10)
}

// prepareOnce runs the key that is due, unless another process has.
func prepareOnce(w *worker) (func(context.Context), error) {
	policy := leader.WithRunOptions(locks.WithErrorPolicy(w.spec.Policy))
	until, err := leader.NewOnce(w.client.framework, w.spec.path(), policy)
	if err != nil {
		return nil, err
	}
	never, err := leader.NewOnce(w.client.framework, w.spec.path(), policy, leader.NeverAgain())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		key := w.keyNow()
		once := until
		if neverAgain(key) {
			once = never
		}
		w.runOnce(ctx, once, key)
	}, nil
}

// runOnce is a turn at one key.
func (w *worker) runOnce(ctx context.Context, once *leader.Once, key string) {
	ctx, cancel := w.bounds(ctx)
	defer cancel()
	lock := w.spec.Name + "#" + key
	c := w.call(lock, "", false)
	var h *held
	_, err := once.Do(ctx, key, func(ctx context.Context) error {
		at, lease := monotonic(), locks.LeaseFrom(ctx)
		if lease.Err() != nil {
			return errTooLate
		}
		h = c.granted(at, 0, lock, lease)
		w.work(ctx, h)
		if !w.last && w.random.IntN(10) == 0 {
			return errJobFailed
		}
		if h.valid() {
			h.record(event{Kind: releasing, LastValid: h.lastValid})
		}
		return nil
	})
	switch at := monotonic(); {
	case h != nil:
		h.record(event{Kind: ran, Value: key, Outcome: markedOutcome(err), Error: text(err)})
		h.record(event{Kind: released, Error: text(err)})
		// A session that ends, as it may on a busy machine, holds nobody up.
		if lost := new(locks.LostError); err != nil && w.last && !errors.As(err, &lost) {
			w.client.giveUpOn(lock)
		}
	case err != nil:
		c.failed(at, err)
	default:
		c.ended(at, nil) // another has run the key
	}
}

// markedOutcome is what the error of a run says of its marker. A run that may
// never be repeated is marked before it begins.
func markedOutcome(err error) outcome {
	switch {
	case err == nil:
		return accepted
	case errors.Is(err, errJobFailed):
		return refused
	default:
		return unknown
	}
}

// keyRuns are the runs of one key, in the order in which they began.
type keyRuns struct {
	key       string
	holds     []*hold
	accepted  []event
	succeeded map[string]bool // holds whose run has been marked
	failed    map[string]bool // holds whose job has failed
}

// runsOf are the runs of all keys of a recipe.
func runsOf(r *roundReport, spec lockSpec) map[string]*keyRuns {
	all := make(map[string]*keyRuns)
	for lock, holds := range r.locks {
		if name, key, _ := strings.Cut(lock, "#"); name == spec.Name {
			all[lock] = &keyRuns{key: key, holds: holds, succeeded: make(map[string]bool), failed: make(map[string]bool)}
		}
	}
	for _, events := range r.events {
		for _, e := range events {
			runs := all[e.Lock]
			switch {
			case e.Kind != ran || runs == nil:
			case e.Outcome == accepted:
				runs.accepted = append(runs.accepted, e)
				runs.succeeded[e.Hold] = true
			case e.Outcome == refused:
				runs.failed[e.Hold] = true
			}
		}
	}
	return all
}

// markerOf is where a key is marked.
func markerOf(spec lockSpec, key string) string { return spec.path() + "/done/" + key }

// apart cuts the runs of a key where a restore has taken its marker back: the key may be run again then.
func (k *keyRuns) apart(r *roundReport, spec lockSpec) (parts []*keyRuns) {
	from, rest := int64(0), *k
	for i, e := range r.eras {
		undone := func(w logWrite) bool { return i+1 < len(r.eras) && w.zxid > r.eras[i+1].base }
		if !slices.ContainsFunc(e.log.writes[markerOf(spec, k.key)], undone) {
			continue
		}
		within := func(at int64) bool { return from <= at && at < e.until }
		part := *k
		part.holds = slices.DeleteFunc(slices.Clone(k.holds), func(h *hold) bool { return !within(h.acquired) })
		part.accepted = slices.DeleteFunc(slices.Clone(k.accepted), func(ran event) bool { return !within(ran.At) })
		parts, from = append(parts, &part), e.until
	}
	rest.holds = slices.DeleteFunc(slices.Clone(k.holds), func(h *hold) bool { return h.acquired < from })
	rest.accepted = slices.DeleteFunc(slices.Clone(k.accepted), func(ran event) bool { return ran.At < from })
	return append(parts, &rest)
}

// twiceRun finds keys that have succeeded twice, that a replica has begun after
// the success of another, and that have begun twice although that was ruled
// out. What a run does whose lock was lost from outside is no fault of the
// recipe, but a key that must never begin again must not even then.
func twiceRun(r *roundReport, spec lockSpec) (found []violation) {
	for _, all := range runsOf(r, spec) {
		for _, runs := range all.apart(r, spec) {
			if at, what := runs.twice(); what != "" {
				found = append(found, violation{
					promise: onceOnly, round: r, at: at, holds: runs.holds, what: fmt.Sprintf("%s: key %s %s", spec.Name, runs.key, what),
				})
			}
		}
	}
	return found
}

// twice says what is wrong with the runs of a key, if something is.
func (k *keyRuns) twice() (at int64, what string) {
	switch {
	case neverAgain(k.key) && len(k.holds) > 1:
		return k.holds[1].acquired, fmt.Sprintf("has begun %d times, and must never again", len(k.holds))
	case len(k.accepted) > 1:
		return k.accepted[1].At, fmt.Sprintf("has succeeded %d times", len(k.accepted))
	case len(k.accepted) == 1:
		for _, h := range k.holds {
			if h.id != k.accepted[0].Hold && h.sure() && h.acquired > k.accepted[0].At {
				return h.acquired, "has begun again after its success"
			}
		}
	}
	return 0, ""
}

// wrongMarkers finds runs that the servers' log contradicts: the marker of a
// key was written once, by the run that has succeeded or that may never be
// repeated, and by none that has failed.
func wrongMarkers(r *roundReport, spec lockSpec) (found []violation) {
	if r.log == nil {
		return nil
	}
	for _, runs := range runsOf(r, spec) {
		marker := markerOf(spec, runs.key)
		for _, h := range runs.holds {
			log := r.logAt(h.acquired)
			wrote := log.writes[marker]
			if len(wrote) == 0 && log.minority[marker] {
				continue // the servers have cut it off their logs
			}
			byThis := len(wrote) == 1 && wrote[0].data == strconv.FormatInt(h.token, 10)
			var what string
			switch {
			case neverAgain(runs.key) && !byThis:
				what = "has begun, and its marker is not of this run"
			case runs.succeeded[h.id] && !byThis:
				what = "has succeeded, and its marker is not of this run"
			case !neverAgain(runs.key) && runs.failed[h.id] && byThis:
				what = "has failed, and is marked"
			default:
				continue
			}
			found = append(found, violation{
				promise: onceOnly, round: r, at: h.acquired, holds: []*hold{h},
				what: fmt.Sprintf("%s: key %s %s (%d markers in the log)", spec.Name, runs.key, what, len(wrote)),
			})
		}
	}
	return found
}
