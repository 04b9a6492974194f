// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/checker"
)

// recipe is a kind of lock as programs see it.
type recipe struct {
	name     string
	verbs    []verb
	folders  []string // of its nodes; the first one is the lock
	model    checker.Model
	open     func(*framework.Framework) (acquireFunc, error)
	reenters bool
	crowd    bool               // its programs are long, and nothing happens to their clients
	resizes  bool               // the number of its permits changes
	several  bool               // of its permits are acquired at once
	members  func(int) []string // of a multi-lock, for a number from 1 to maxPermits
}

// acquireFunc acquires as the verb says.
type acquireFunc func(ctx context.Context, v verb, n int) ([]*grant, error)

// folderOf is the folder whose nodes an actor deletes.
func (r *recipe) folderOf(actor int) string { return r.folders[actor%len(r.folders)] }

// acquires tells whether the verb is one that acquires.
func (r *recipe) acquires(v verb) bool {
	return slices.Contains([]verb{acquireIt, tryIt, readIt, tryReadIt, downgradeIt}, v)
}

// reads tells whether the verb is of the side that many can hold.
func (v verb) reads() bool { return v == readIt || v == tryReadIt || v == downgradeIt }

var (
	basicVerbs  = []verb{restIt, acquireIt, acquireIt, acquireIt, tryIt, releaseIt, releaseIt, cancelIt, revokeIt, deleteIt, forgeIt, killIt, loseIt}
	readVerbs   = slices.Concat(basicVerbs, []verb{readIt, readIt, tryReadIt, turnIt, turnIt, turnIt, turnIt, turnIt, turnIt})
	crowdVerbs  = []verb{turnIt, turnIt, turnIt, turnIt, turnIt, turnIt, turnIt, turnIt, turnIt, cancelIt, forgeIt}
	resizeVerbs = slices.Concat(basicVerbs, []verb{resizeIt})
)

const modelPath = "/model"

var (
	modelFolder      = []string{modelPath}
	semaphoreFolders = []string{modelPath + "/leases", modelPath + "/locks"}
)

var recipesOfModels = []*recipe{
	{
		name: "mutex", verbs: basicVerbs, folders: modelFolder, model: checker.Reentrant(), reenters: true,
		open: func(c *framework.Framework) (acquireFunc, error) {
			return through(locks.NewInterProcessMutex(c, modelPath))
		},
	},
	{
		name: "mutexes", verbs: basicVerbs, folders: modelFolder, model: checker.Semaphore(1), // a row of holds has one token
		open: openMutexes,
	},
	{
		name: "readwrite", verbs: readVerbs, folders: modelFolder, model: checker.ReadWrite(), reenters: true,
		open: openReadWrite,
	},
	{
		name: "readwrite-crowd", verbs: crowdVerbs, folders: modelFolder, model: checker.ReadWrite(), reenters: true, crowd: true,
		open: openReadWrite,
	},
	{
		name: "semaphore", verbs: resizeVerbs, folders: modelFolder, model: checker.Semaphore(maxPermits - 1), resizes: true,
		open: func(c *framework.Framework) (acquireFunc, error) {
			return through(locks.NewInterProcessSemaphore(c, modelPath, sharedLeases(c)))
		},
	},
	{
		name: "semaphore-v2", verbs: resizeVerbs, folders: semaphoreFolders, model: checker.Semaphore(maxPermits - 1), resizes: true, several: true,
		open: openSemaphoreV2,
	},
	{
		name: "multi", verbs: basicVerbs, folders: multiMembers(maxPermits), model: checker.Reentrant(), reenters: true,
		open: openMulti, members: multiMembers,
	},
}

// openMutexes opens locks that are one lock: they share what a client knows about its queue.
func openMutexes(c *framework.Framework) (acquireFunc, error) {
	usual, err := locks.NewInterProcessMutex(c, modelPath, locks.WithoutReentry())
	if err != nil {
		return nil, err
	}
	row, err := locks.NewInterProcessMutex(c, modelPath, locks.WithoutReentry(), locks.WithLocalHandoff(maxPermits))
	if err != nil {
		return nil, err
	}
	semaphore, err := locks.NewInterProcessSemaphore(c, modelPath, locks.FixedLeases(1), locks.WithoutReentry())
	if err != nil {
		return nil, err
	}
	kinds := [maxPermits]locks.InterProcessLock{usual, row, semaphore}
	return func(ctx context.Context, v verb, n int) ([]*grant, error) {
		return single(kinds[n-1], false)(ctx, v, n)
	}, nil
}

func openReadWrite(c *framework.Framework) (acquireFunc, error) {
	rw, err := locks.NewInterProcessReadWriteLock(c, modelPath)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, v verb, n int) ([]*grant, error) {
		if v.reads() {
			return single(rw.ReadLock(), true)(ctx, v, n)
		}
		return single(rw.WriteLock(), false)(ctx, v, n)
	}, nil
}

func openSemaphoreV2(c *framework.Framework) (acquireFunc, error) {
	semaphore, err := locks.NewInterProcessSemaphoreV2(c, modelPath, sharedLeases(c))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, v verb, n int) ([]*grant, error) {
		acquire := semaphore.AcquireN
		if v == tryIt {
			acquire = semaphore.TryAcquireN
		}
		leases, err := acquire(ctx, n)
		var grants []*grant
		for _, lease := range leases {
			grants = append(grants, grantOf(lease, false))
		}
		return grants, err
	}, nil
}

// multiMembers names what multi-locks have for members, which is not always in the
// same order.
func multiMembers(n int) []string {
	a, b, c := modelPath+"/a", modelPath+"/b", modelPath+"/c"
	return [][]string{{a, b}, {b, a}, {c, b, a}}[n-1]
}

func openMulti(c *framework.Framework) (acquireFunc, error) {
	return func(ctx context.Context, v verb, n int) ([]*grant, error) {
		var members []locks.InterProcessLock
		for _, member := range multiMembers(n) {
			mutex, err := locks.NewInterProcessMutex(c, member)
			if err != nil {
				return nil, err
			}
			members = append(members, mutex)
		}
		multi, err := locks.NewInterProcessMultiLock(members...)
		if err != nil {
			return nil, err
		}
		acquire := multi.Acquire
		if v == tryIt {
			acquire = multi.TryAcquire
		}
		lease, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		return []*grant{{leases: lease.Leases(), context: lease.Context, release: lease.Release}}, nil
	}, nil
}

func through[L locks.InterProcessLock](lock L, err error) (acquireFunc, error) {
	return single(lock, false), err
}

func single(lock locks.InterProcessLock, shared bool) acquireFunc {
	return func(ctx context.Context, v verb, _ int) ([]*grant, error) {
		acquire := lock.Acquire
		if v == tryIt || v == tryReadIt {
			acquire = lock.TryAcquire
		}
		lease, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		return []*grant{grantOf(lease, shared)}, nil
	}
}

func grantOf(lease *locks.Lease, shared bool) *grant {
	return &grant{shared: shared, leases: []*locks.Lease{lease}, context: lease.Context, release: lease.Release}
}

// sharedLeases are the permits of a semaphore of programs.
func sharedLeases(c *framework.Framework) *locks.SharedLeases {
	shared, err := locks.NewSharedLeases(c, "/permits", maxPermits-1)
	if err != nil {
		panic(err) // the arguments are good
	}
	return shared
}

// Whatever some owners do with a lock, and whatever happens to their clients: there
// is an order of it that a lock of that kind can have gone through, all who wait get
// through, and nothing is left.
//
// A hundred programs for each recipe, the same ones in each run; CURATOR_CHECKS=100000
// makes it more, and CURATOR_SEED=random others. One that fails is printed as rapid has
// shrunk it, step by step, with what its owners saw, and as a row for [keptPrograms].
func TestModels(t *testing.T) {
	t.Parallel()
	for _, r := range recipesOfModels {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			var seen tally
			tries := 1
			rapid.Check(t, func(rt *rapid.T) {
				p := rapid.Custom(func(t *rapid.T) program { return drawProgram(t, r) }).Draw(rt, "program")
				for range tries {
					if err := p.check(t, &seen); err != nil {
						if tries == 1 {
							t.Logf("the first program that went wrong: %v\n%v", p, err)
						}
						tries = triesOfShrinking
						rt.Logf("%v\n%s", err, p.row())
						rt.Fatal("the program above has gone wrong") // the same words each time, or rapid does not shrink it
					}
				}
			})
			t.Log(&seen)
			seen.requireEnough(t, r)
		})
	}
}

// triesOfShrinking is how often a program is run, once one has failed, before it
// counts as one that does not: what happens in the same nanosecond comes in any order,
// and the pauses before a client connects again are random.
const triesOfShrinking = 5

// check runs the program once, and returns what was wrong.
func (p program) check(t *testing.T, seen *tally) error {
	t.Helper()
	var r result
	synctest.Test(t, func(*testing.T) { r = p.run(seen) })
	return errors.Join(append(r.problems, checker.Check(p.recipe.model, r.ops), p.idles(r))...)
}

// idles returns an error if at the end of the program somebody waited for nothing: if
// the lock could have been given to whoever of those who waited was the first.
func (p program) idles(r result) error {
	if len(r.waiting) == 0 || slices.ContainsFunc(r.atRest, func(op checker.Op) bool { return op.Return == math.MaxInt64 }) {
		return nil // or nobody knows how many permits there are
	}
	kept := func(wanted []checker.Op) bool {
		return checker.Check(p.recipe.model, slices.Concat(r.atRest, wanted)) != nil
	}
	if slices.ContainsFunc(r.waiting, kept) {
		return nil
	}
	var b strings.Builder
	for _, op := range r.atRest {
		fmt.Fprintf(&b, "\n    %v", op)
	}
	return fmt.Errorf("%d wait, and any could be let in after%s", len(r.waiting), &b)
}
