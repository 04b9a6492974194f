// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/checker"
)

// lockWorkloads are the recipes of package locks.
var lockWorkloads = []workload{
	{name: "mutex", workers: 1, exclusive: true, model: mutexModel, prepare: prepareMutex},
	{name: "reentrant", workers: 1, exclusive: true, model: reentrantModel, prepare: prepareReentrant},
	{name: "handoff", workers: 3, exclusive: true, model: oneAtATime, prepare: prepareHandoff},
	{name: "revocable", workers: 1, exclusive: true, model: mutexModel, prepare: prepareRevocable},
	{name: "readwrite", workers: 2, exclusive: true, model: readWriteModel, prepare: prepareReadWrite},
	{name: "semaphore", workers: 1, permits: 3, model: semaphoreModel, prepare: prepareSemaphore},
	{name: "semaphore-v2", workers: 1, permits: 3, model: semaphoreModel, folders: turnFolders, prepare: prepareSemaphoreV2},
	{name: "semaphore-mutex", workers: 1, exclusive: true, model: oneAtATime, folders: turnFolders, prepare: prepareSemaphoreMutex},
	{
		name: "multi", workers: 1, exclusive: true, model: mutexModel, folders: lockSpec.memberPaths, protects: lockSpec.members,
		prepare: prepareMulti,
	},
}

// turnFolders returns the folders of a recipe that waits in one folder and holds in another.
func turnFolders(s lockSpec) []string { return []string{s.path() + "/locks", s.path() + "/leases"} }

func mutexModel(lockSpec) checker.Model          { return checker.Mutex() }
func reentrantModel(lockSpec) checker.Model      { return checker.Reentrant() }
func readWriteModel(lockSpec) checker.Model      { return checker.ReadWrite() }
func semaphoreModel(spec lockSpec) checker.Model { return checker.Semaphore(spec.Permits) }

// oneAtATime is a mutex whose holds may share a token, one after the other.
func oneAtATime(lockSpec) checker.Model { return checker.Semaphore(1) }

// simple is a turn at a lock: acquire, work, release.
func (w *worker) simple(lock locks.InterProcessLock, shared bool) func(context.Context) {
	return func(ctx context.Context) {
		for _, h := range w.acquire(ctx, "", shared, []string{w.spec.Name}, w.tryToo(lock)) {
			w.work(ctx, h)
			h.release(ctx)
		}
	}
}

func (w *worker) mutex(opts ...locks.Option) (*locks.InterProcessMutex, error) {
	return locks.NewInterProcessMutex(w.client.framework, w.spec.path(), append(opts, locks.WithErrorPolicy(w.spec.Policy))...)
}

func prepareMutex(w *worker) (func(context.Context), error) {
	mutex, err := w.mutex()
	if err != nil {
		return nil, err
	}
	return w.simple(mutex, false), nil
}

// prepareHandoff shares one lock among the workers of a process.
func prepareHandoff(w *worker) (func(context.Context), error) {
	mutex, err := w.client.sharedMutex(w.spec, func() (*locks.InterProcessMutex, error) {
		return w.mutex(locks.WithLocalHandoff(5))
	})
	if err != nil {
		return nil, err
	}
	return w.simple(mutex, false), nil
}

// prepareReentrant acquires twice, and gives back in either order.
func prepareReentrant(w *worker) (func(context.Context), error) {
	mutex, err := w.mutex()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		owner := fmt.Sprintf("%s/owner-%d", w.name, w.turns)
		for _, outer := range w.acquire(ctx, owner, false, []string{w.spec.Name}, w.tryToo(mutex)) {
			all := []*held{outer}
			if outer.valid() {
				again := outer.lease.Context(ctx)
				all = append(all, w.acquire(again, owner, false, []string{w.spec.Name}, w.tryToo(mutex))...)
			}
			w.work(ctx, all...)
			w.random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
			for _, h := range all {
				h.release(ctx)
			}
		}
	}, nil
}

// prepareRevocable gives way when it is asked to, and asks now and then itself.
func prepareRevocable(w *worker) (func(context.Context), error) {
	mutex, err := w.mutex()
	if err != nil {
		return nil, err
	}
	turn := w.simple(mutex, false)
	return func(ctx context.Context) {
		if w.random.IntN(4) == 0 {
			w.revoke(ctx, mutex)
		}
		turn(ctx)
	}, nil
}

// revoke asks the first in the queue to give way. That there is none, or that
// neither can be had while servers are down, is nothing that a history needs.
func (w *worker) revoke(ctx context.Context, mutex *locks.InterProcessMutex) {
	ctx, cancel := context.WithTimeout(ctx, impatience)
	defer cancel()
	queue, err := mutex.Participants(ctx)
	if err != nil || len(queue) == 0 {
		return
	}
	_ = locks.AttemptRevoke(ctx, w.client.framework, queue[0].Path)
}

func prepareReadWrite(w *worker) (func(context.Context), error) {
	lock, err := locks.NewInterProcessReadWriteLock(w.client.framework, w.spec.path(), locks.WithErrorPolicy(w.spec.Policy))
	if err != nil {
		return nil, err
	}
	read, write, names := w.simple(lock.ReadLock(), true), lock.WriteLock(), []string{w.spec.Name}
	return func(ctx context.Context) {
		if w.random.IntN(3) != 0 {
			read(ctx)
			return
		}
		owner := fmt.Sprintf("%s/owner-%d", w.name, w.turns)
		for _, writer := range w.acquire(ctx, owner, false, names, w.tryToo(write)) {
			w.work(ctx, writer)
			if w.random.IntN(3) != 0 || !writer.valid() {
				writer.release(ctx)
				continue
			}
			readers := w.acquire(writer.lease.Context(ctx), owner, true, names, w.tryToo(lock.ReadLock()))
			writer.release(ctx)
			for _, reader := range readers {
				w.work(ctx, reader)
				reader.release(ctx)
			}
		}
	}, nil
}

func prepareSemaphore(w *worker) (func(context.Context), error) {
	semaphore, err := locks.NewInterProcessSemaphore(w.client.framework, w.spec.path(),
		locks.FixedLeases(w.spec.Permits), locks.WithErrorPolicy(w.spec.Policy))
	if err != nil {
		return nil, err
	}
	return w.simple(semaphore, false), nil
}

// prepareSemaphoreV2 acquires one lease or all.
func prepareSemaphoreV2(w *worker) (func(context.Context), error) {
	semaphore, err := locks.NewInterProcessSemaphoreV2(w.client.framework, w.spec.path(),
		locks.FixedLeases(w.spec.Permits), locks.WithErrorPolicy(w.spec.Policy))
	if err != nil {
		return nil, err
	}
	names := make([]string, w.spec.Permits)
	for i := range names {
		names[i] = w.spec.Name
	}
	return func(ctx context.Context) {
		n := 1 + w.random.IntN(w.spec.Permits)
		all := w.acquire(ctx, "", false, names, func(ctx context.Context) ([]*locks.Lease, error) {
			return semaphore.AcquireN(ctx, n)
		})
		if len(all) == 0 {
			return
		}
		w.work(ctx, all...)
		for _, h := range all {
			h.release(ctx)
		}
	}, nil
}

func prepareSemaphoreMutex(w *worker) (func(context.Context), error) {
	mutex, err := locks.NewInterProcessSemaphoreMutex(w.client.framework, w.spec.path(), locks.WithErrorPolicy(w.spec.Policy))
	if err != nil {
		return nil, err
	}
	return w.simple(mutex, false), nil
}

// memberCount is how many locks a multi-lock has here.
const memberCount = 2

// members are the names of the locks of a multi-lock, and memberPaths their folders.
func (s lockSpec) members() (names []string) {
	for n := range memberCount {
		names = append(names, fmt.Sprintf("%s#%d", s.Name, n))
	}
	return names
}

func (s lockSpec) memberPaths() (paths []string) {
	for n := range memberCount {
		paths = append(paths, fmt.Sprintf("%s-%d", s.path(), n))
	}
	return paths
}

func prepareMulti(w *worker) (func(context.Context), error) {
	var all []locks.InterProcessLock
	names := w.spec.members()
	for _, path := range w.spec.memberPaths() {
		mutex, err := locks.NewInterProcessMutex(w.client.framework, path, locks.WithErrorPolicy(w.spec.Policy))
		if err != nil {
			return nil, err
		}
		all = append(all, mutex)
	}
	multi, err := locks.NewInterProcessMultiLock(all...)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		holds := w.acquire(ctx, "", false, names, func(ctx context.Context) ([]*locks.Lease, error) {
			lease, err := multi.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return lease.Leases(), nil
		})
		if len(holds) == 0 {
			return
		}
		w.work(ctx, holds...)
		for _, h := range holds {
			h.release(ctx)
		}
	}, nil
}
