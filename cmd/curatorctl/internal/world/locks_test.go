// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/slots"
	"github.com/gocurator/curator/testing/zksim"
)

// The times of the options. A clock of a server may be wrong by a hundredth.
const (
	delay   = 3 * time.Second
	longest = time.Second
)

// permits is how many a semaphore has at most.
const permits = 2

// locks prepares what is held.
func (m *member) locks() error {
	var opts, places []locks.Option
	if n, err := strconv.Atoi(m.o.get("places")); err == nil {
		places = append(places, locks.WithQueuePlaces(n))
	}
	opts = append(opts, places...)
	if m.o.is("lock delay", "3s") {
		opts = append(opts, locks.WithLockDelay(delay))
	}
	if m.o.is("longest hold", "1s") {
		opts = append(opts, locks.WithMaxHold(longest))
	}
	if m.o.is("hand-off", "3") {
		opts = append(opts, locks.WithLocalHandoff(3))
	}
	opts = append(opts, m.queueListener())
	mutex, err1 := locks.NewInterProcessMutex(m.client, "/mutex", opts...)
	both, err2 := locks.NewInterProcessReadWriteLock(m.client, "/both", places...)
	shared, err0 := locks.NewSharedLeases(m.client, "/permits", permits)
	semaphore, err3 := m.semaphore(shared)
	var standing []leader.Option
	if m.o.is("election", "again") {
		standing = append(standing, leader.WithAutoRequeue())
	}
	election, err4 := leader.NewLeaderSelector(m.client, "/election", standing...)
	var slotOpts []slots.Option
	if m.o.is("slot delay", "3s") {
		slotOpts = append(slotOpts, slots.WithDelay(delay))
	}
	numbers, err5 := slots.New(m.client, "/slots", 2, slotOpts...)
	if err := errors.Join(err0, err1, err2, err3, err4, err5); err != nil {
		return err
	}
	if m.o.is("asked", "gives way") {
		mutex.MakeRevocable(m.givesWay)
	}
	m.mutex = mutex
	m.acts["mutex"] = func(ctx context.Context, random *rand.Rand) {
		var all sync.WaitGroup
		for range 1 + random.IntN(3) { // goroutines, which may hand it to each other
			mine := rand.New(rand.NewPCG(random.Uint64(), 0))
			all.Go(func() { m.hold(ctx, mine, "/mutex", true, mutex, lasts(mine), nil) })
		}
		all.Wait()
	}
	m.acts["read/write lock"] = func(ctx context.Context, random *rand.Rand) {
		d := lasts(random)
		if random.IntN(2) == 0 {
			m.hold(ctx, random, "/both", false, both.ReadLock(), d, nil)
			return
		}
		m.hold(ctx, random, "/both", true, both.WriteLock(), d, func(writing context.Context) {
			if random.IntN(2) == 0 { // in the place of the writer
				m.hold(writing, random, "", false, both.ReadLock(), d/2, nil)
			}
		})
	}
	m.acts["semaphore"] = func(ctx context.Context, random *rand.Rand) {
		if n := 1 + random.IntN(permits); m.o.is("permits", "shared") && random.IntN(3) == 0 {
			m.logf("%d permits: %v", n, shared.Set(ctx, n))
		}
		m.permits(ctx, random, semaphore)
	}
	m.acts["slots"] = func(ctx context.Context, random *rand.Rand) {
		if random.IntN(2) == 0 { // processes that are started together take at the same moment
			const rush = 5 * time.Second
			sleep(ctx, rush-m.w.Elapsed()%rush)
		}
		waiting, cancel := context.WithTimeout(ctx, upTo(random, 10*time.Second))
		defer cancel()
		take := numbers.Take
		if random.IntN(3) == 0 {
			take = numbers.TryTake
		}
		slot, err := take(waiting)
		if err != nil {
			m.logf("slot: %v", err)
			return
		}
		m.held(ctx, "/slots/"+strconv.Itoa(slot.Number()), true, slot.Lease, upTo(random, 8*time.Second), nil)
	}
	m.acts["election"] = func(ctx context.Context, random *rand.Rand) {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second) // a history may have ten of these
		defer cancel()
		lead := func(ctx context.Context, lease *locks.Lease) {
			leave := m.enter("/election", true, lease)
			defer leave()
			m.hold(ctx, random, "/mutex", true, mutex, upTo(random, time.Second), nil) // as a leader does that writes elsewhere
			m.leaderWrites(ctx, lease)
			sleep(ctx, upTo(random, 2*time.Second))
		}
		if strings.HasPrefix(m.o.get("election"), "latch") {
			m.logf("latch: %v", m.latch(ctx, lead))
			return
		}
		m.logf("selector: %v", election.Run(ctx, func(ctx context.Context) error {
			lead(ctx, locks.LeaseFrom(ctx))
			return nil
		}))
	}
	return nil
}

// lasts returns how long a hold lasts: some are short, as those behind it then rely on what they have seen.
func lasts(random *rand.Rand) time.Duration {
	if random.IntN(3) == 0 {
		return upTo(random, 50*time.Millisecond)
	}
	return upTo(random, 2*time.Second)
}

func (m *member) latch(ctx context.Context, lead func(context.Context, *locks.Lease)) error {
	mode := leader.Silent
	if m.o.is("election", "latch that tells") {
		mode = leader.NotifyLeader
	}
	latch, err := leader.NewLeaderLatch(m.client, "/election", leader.WithCloseMode(mode))
	if err != nil {
		return err
	}
	leads := false // as the listener was told
	listener := latch.OnChange(func(c leader.Change) {
		if c.Leader == leads || !c.Leader && errors.Is(c.Err, leader.ErrClosed) && mode == leader.Silent {
			m.findf("the latch tells: %+v", c)
		}
		leads = c.Leader
	})
	err = latch.Start()
	lease, failed := latch.Await(ctx) // also without a Start
	if failed == nil {
		lead(lease.Context(ctx), lease)
	}
	err = errors.Join(err, failed, latch.Close())
	time.Sleep(time.Millisecond) // the listener is told on a goroutine of its own
	listener.Remove()
	<-listener.Done()
	if leads && mode == leader.NotifyLeader {
		m.findf("the latch was closed, and has not told that it does not lead")
	}
	return err
}

// leaderWrites has a leader write its token: it must not stand behind that of a later leader.
func (m *member) leaderWrites(ctx context.Context, lease *locks.Lease) {
	token := strconv.AppendInt(nil, lease.Token(), 10)
	_, err := m.client.Create(ctx, "/leader", token)
	if err == nil {
		return
	}
	var written framework.Stat
	before, err := m.client.Get(ctx, "/leader", framework.StoringStatIn(&written))
	if err != nil {
		return
	}
	if _, err = lease.Transact(ctx, framework.SetDataOp("/leader", token, framework.WithVersion(framework.AnyVersion))); err != nil {
		return
	}
	m.all.chance(ruleTokens)
	if last, _ := strconv.ParseInt(string(before), 10, 64); last > lease.Token() && !m.forgets() {
		m.findf("the leader with token %#x has written after %#x", lease.Token(), last)
	}
}

// hold acquires a lock, holds it for a while, and releases it.
func (m *member) hold(ctx context.Context, random *rand.Rand, key string, exclusive bool, lock locks.InterProcessLock, d time.Duration, during func(context.Context)) {
	waiting, cancel := ctx, func() {}
	acquire := lock.Acquire
	switch random.IntN(6) {
	case 0:
		acquire = lock.TryAcquire
	case 1, 2:
		waiting, cancel = context.WithTimeout(ctx, upTo(random, 10*time.Second))
	default: // however long it takes
		if m.o.is("faults", "restores") { // locks may come back whose turns have ended
			waiting, cancel = context.WithTimeout(ctx, 20*time.Second)
		}
	}
	lease, err := acquire(waiting)
	cancel()
	if err != nil {
		m.logf("%s: %v", key, err)
		return
	}
	m.held(ctx, key, exclusive, lease, d, during)
}

// held judges one hold. A key of "" is part of another hold.
func (m *member) held(ctx context.Context, key string, exclusive bool, lease *locks.Lease, d time.Duration, during func(context.Context)) {
	leave := func() {}
	if key != "" {
		entered, kept := m.enter(key, exclusive, lease), m.keeps(key, lease)
		leave = func() { kept(); entered() }
	}
	began := time.Now()
	if during != nil {
		during(lease.Context(ctx))
	}
	select {
	case <-time.After(d):
	case <-lease.Done():
	}
	m.lasted(key, lease, time.Since(began), during == nil)
	leave()
	ended, lost := time.Now(), isLost(lease) && !m.isBroken(lease.Token())
	err := lease.Release(ctx)
	if err != nil {
		m.logf("%s: %v", key, err)
	}
	m.all.Lock()
	defer m.all.Unlock()
	if lost && m.all.begun[key].Before(ended) { // no other process has it already
		m.all.lost[key] = ended
	}
}

// settleDelay has a hold be lost, and contenders that each live for less than the lock delay: one of them gets the lock.
func (all *truth) settleDelay(ctx context.Context, m *member) {
	if !m.o.is("lock delay", "3s") {
		return
	}
	all.chance(ruleShortLived)
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	lost, err := m.mutex.Acquire(waiting)
	if err == nil {
		err = m.client.Delete(ctx, lost.Path())
	}
	if err != nil {
		m.findf("/mutex: %v", err)
		return
	}
	began := time.Now()
	for {
		waiting, cancel := context.WithTimeout(ctx, delay*2/3)
		lease, err := m.mutex.Acquire(waiting)
		cancel()
		passed := time.Since(began)
		switch {
		case err == nil && passed < delay*97/100, err != nil && passed > 3*delay:
			m.findf("/mutex: %v, %v after a loss", err, passed)
		case err != nil:
			continue
		}
		if err == nil {
			err = lease.Release(ctx)
			m.logf("/mutex: %v", err)
		}
		return
	}
}

// enter notes a hold. It finds one that begins before the lock delay is over.
func (m *member) enter(key string, exclusive bool, lease *locks.Lease) (leave func()) {
	token := lease.Token()
	if key == "/mutex" && m.o.is("hand-off", "3") {
		token = 0 // holds in a row share it
	}
	m.all.Lock()
	lost, hasLost := m.all.lost[key]
	m.all.begun[key] = time.Now()
	delete(m.all.lost, key)
	m.all.Unlock()
	delays := key == "/mutex" && m.o.is("lock delay", "3s") || strings.HasPrefix(key, "/slots/") && m.o.is("slot delay", "3s")
	if passed := time.Since(lost); hasLost && delays && passed < delay*97/100 && !m.forgets() {
		m.findf("holds %s %v after a loss", key, passed)
	}
	if hasLost && delays && key == "/mutex" {
		m.all.chance(ruleLockDelay)
	} else if hasLost && delays {
		m.all.chance(ruleSlotDelay)
	}
	places := 0
	if key == "/semaphore" || key == "/permits/first" {
		places, token = permits, 0
		m.all.chance(rulePermits)
	}
	kind, _, _ := strings.Cut(strings.TrimPrefix(key, "/"), "/")
	return m.entered(kind, zksim.Hold{
		Key: key, Client: m.c.Index, Exclusive: exclusive, Places: places, Token: token, IsOver: m.isOver(lease),
	})
}

// lasted finds a hold that has lasted longer than it may, as one has that waits for the end of its lease, or was ended as if it had.
func (m *member) lasted(key string, lease *locks.Lease, d time.Duration, waits bool) {
	if key != "/mutex" {
		return
	}
	const late = 50 * time.Millisecond
	var lost *framework.LostError
	isEnded := errors.As(lease.Err(), &lost) && lost.Reason == framework.ReasonMaxHold
	limited := m.o.is("longest hold", "1s")
	if limited && waits && d >= longest-late {
		m.all.chance(ruleLongest)
	}
	switch {
	case isEnded && (!limited || d < longest-late):
		m.findf("a hold was ended after %v: %v", d, lease.Err())
	case limited && d > longest+late && (waits || lease.Err() == nil):
		m.findf("a hold has lasted for %v", d)
	}
}

// semaphore returns the semaphore of a fleet.
func (m *member) semaphore(shared *locks.SharedLeases) (locks.InterProcessLock, error) {
	switch m.o.get("permits") {
	case "shared":
		return locks.NewInterProcessSemaphoreV2(m.client, "/semaphore", shared)
	case "first version":
		return locks.NewInterProcessSemaphore(m.client, "/permits/first", locks.FixedLeases(permits))
	case "one":
		return locks.NewInterProcessSemaphoreMutex(m.client, "/permits/one")
	default:
		return locks.NewInterProcessSemaphoreV2(m.client, "/semaphore", locks.FixedLeases(permits))
	}
}

// permits acquires one permit or two.
func (m *member) permits(ctx context.Context, random *rand.Rand, lock locks.InterProcessLock) {
	semaphore, hasSeveral := lock.(*locks.InterProcessSemaphoreV2)
	if !hasSeveral || random.IntN(3) > 0 {
		m.hold(ctx, random, lock.Path(), lock.Path() == "/permits/one", lock, upTo(random, 2*time.Second), nil)
		return
	}
	waiting, cancel := context.WithTimeout(ctx, upTo(random, 10*time.Second))
	leases, err := semaphore.AcquireN(waiting, 2)
	cancel()
	if err != nil {
		m.logf("permits: %v", err)
		return
	}
	var leave []func()
	for _, lease := range leases {
		leave = append(leave, m.enter("/semaphore", false, lease))
	}
	sleep(ctx, upTo(random, 2*time.Second))
	for _, leave := range leave {
		leave()
	}
	m.logf("permits: %v", locks.ReleaseAll(ctx, leases...))
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
