// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
)

// The names of the nodes of the two groups in the waiting room.
const (
	operator = "operator-"
	job      = "job-"
)

// room is the driver of a waiting room: operators come before jobs, and each group stands
// in the order of arrival. Everything but the order is as for a mutex: the node is
// protected and ephemeral, the first one in the order gets in, and each of the others
// watches the one before it. If a newcomer comes between two of them, nothing is lost: a
// wake-up leads to a new look at the whole list.
type room struct {
	mutex locks.StandardLockInternalsDriver
}

// Contends reports whether the name belongs to either group.
func (room) Contends(name string) bool { return isOf(operator, name) || isOf(job, name) }

// Compare orders by group, and within one group by the number from the server.
func (room) Compare(a, b string) int {
	group := operator
	switch first, second := isOf(operator, a), isOf(operator, b); {
	case first && !second:
		return -1
	case second && !first:
		return 1
	case !first:
		group = job
	}
	return locks.StandardLockInternalsSorter{LockName: group}.Compare(a, b)
}

// CreatesTheLock creates the node as for a mutex.
func (r room) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (locks.LockNode, error) {
	return r.mutex.CreatesTheLock(ctx, client, session, path, data)
}

// GetsTheLock decides as for a mutex.
func (r room) GetsTheLock(contenders []string, ours string, maxLeases int) (locks.PredicateResults, error) {
	return r.mutex.GetsTheLock(contenders, ours, maxLeases)
}

// Overtakes says that the room is no lock by itself: an operator is let in although a job
// was before.
func (room) Overtakes() bool { return true }

func isOf(group, name string) bool {
	return locks.StandardLockInternalsSorter{LockName: group}.Contends(name)
}

// newOperatorLock returns a lock whose operators wait for the holder only, and not for the
// jobs in the queue. It is a waiting room and a mutex, and its owner holds both.
//
// The room alone would be no lock. An operator that arrives comes before all others, even
// before the job that holds the lock: the names do not show whether the first job is at
// work or still waits for an operator that has just left. So the first in the room goes on
// to the mutex, and only the mutex excludes. The mutex's queue has its holder, and the
// contenders that were first in the room after it.
func newOperatorLock(client *framework.Framework, path, group string) (*locks.InterProcessMultiLock, error) {
	driver := room{locks.StandardLockInternalsDriver{
		StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: group},
	}}
	waiting, err := locks.NewLockInternals(client, driver, path+"/1-room", group, 1,
		locks.WithRecipeName(strings.TrimSuffix(group, "-")))
	if err != nil {
		return nil, err
	}
	mutex, err := locks.NewInterProcessMutex(client, path+"/2-lock")
	if err != nil {
		return nil, err
	}
	return locks.NewInterProcessMultiLock(waiting, mutex) // in the order of the paths; released in reverse
}

// A recipe of one's own: a lock for which operators wait at the front of the queue.
func Example_composing() {
	server, err := zkserver.Start()
	check(err)
	ctx := context.Background()
	client, err := framework.Connect(ctx, server.Addr())
	check(err)
	defer func() { check(errors.Join(client.Close(), server.Close())) }()

	jobs, err := newOperatorLock(client, "/locks/machine", job)
	check(err)
	operators, err := newOperatorLock(client, "/locks/machine", operator)
	check(err)
	holder, err := jobs.Acquire(ctx)
	check(err)

	order := make(chan string, 4)
	var all sync.WaitGroup
	for _, arrival := range []struct {
		who  string
		lock *locks.InterProcessMultiLock
		then int // nodes in the room and at the mutex
	}{
		{"second job", jobs, 3},
		{"third job", jobs, 4},
		{"operator", operators, 6},
		{"second operator", operators, 7}, // the first of them is at the mutex, too
	} {
		all.Go(func() {
			check(arrival.lock.Do(ctx, func(context.Context) error {
				order <- arrival.who
				return nil
			}))
		})
		for arrived := 0; arrived < arrival.then; {
			participants, err := jobs.Participants(ctx)
			check(err)
			arrived = len(participants)
		}
	}
	check(holder.Release(ctx))
	all.Wait()
	close(order)
	for who := range order {
		fmt.Println(who)
	}
	// Output:
	// operator
	// second operator
	// second job
	// third job
}
