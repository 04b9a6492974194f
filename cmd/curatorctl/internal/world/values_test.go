// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/recipes/x/txn"
)

// counter is what changes of a counter have returned.
type counter struct {
	given   map[int64]bool
	inDoubt int
}

var accounts = []string{"/accounts/a", "/accounts/b", "/accounts/c"}

// values prepares a counter and accounts.
func (m *member) values() error {
	var opts []atomic.Option
	if m.o.is("counter", "promoted") {
		opts = append(opts, atomic.WithPromotedToLock("/counter-lock", 2))
	}
	number, err := atomic.NewDistributedAtomicLong(m.client, "/counter", opts...)
	if err != nil {
		return err
	}
	m.last, m.raise = number.Get, func(ctx context.Context) {
		value, err := number.Increment(ctx)
		m.count(value.Post, err)
	}
	if m.o.is("counter", "cached") {
		if err := m.cachedCount(number); err != nil {
			return err
		}
	}
	if m.o.is("counter", "shared") {
		if err := m.sharedCount(); err != nil {
			return err
		}
	}
	m.acts["counter"] = func(ctx context.Context, random *rand.Rand) {
		for range 1 + random.IntN(4) {
			m.raise(ctx)
		}
	}
	m.acts["transactions"] = func(ctx context.Context, random *rand.Rand) {
		switch random.IntN(3) {
		case 0:
			for range 3 {
				m.logf("transfer: %v", m.transfer(ctx, random))
			}
			m.all.chance(ruleAccounts)
			return
		case 1:
			m.audit(ctx, random)
			return
		default: // under a lock
		}
		m.hold(ctx, random, "/mutex", true, m.mutex, 0, func(held context.Context) {
			lease := locks.LeaseFrom(held)
			err := m.transfer(held, random, txn.With(lease)) // not for longer than the hold
			m.logf("transfer under %v: %v", lease, err)
		})
	}
	if !m.o.plays("transactions") {
		return nil
	}
	for _, path := range accounts {
		_, err := m.client.Create(context.Background(), path, []byte("100"), framework.CreatingParentsIfNeeded(), framework.Idempotent())
		if err != nil && !errors.Is(err, framework.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// cachedCount prepares numbers from blocks.
func (m *member) cachedCount(number *atomic.DistributedAtomicLong) error {
	const block = 3
	cached, err := atomic.NewCachedAtomicLong(number, block)
	m.raise = func(ctx context.Context) {
		n, err := cached.Next(ctx)
		m.count(n, err)
	}
	m.last = func(ctx context.Context) (int64, error) { // of the numbers that were given at most
		last, err := number.Get(ctx)
		m.all.Lock()
		defer m.all.Unlock()
		if n := int64(len(m.all.counter.given)); last >= n && !m.o.is("faults", "restores") {
			last = n // each process has dropped what was left of its block
		}
		return last, err
	}
	return err
}

// sharedCount prepares a copy of a number that each process raises by one. It finds that the copy goes back.
func (m *member) sharedCount() error {
	count, err := shared.NewSharedCount(m.client, "/count", 0)
	if err == nil {
		err = count.Start(context.Background())
	}
	if err != nil {
		return err
	}
	m.close = append(m.close, count.Close)
	last := int64(0) // the transaction of the newest change
	count.OnChange(func(v shared.VersionedCount) {
		if v.Zxid <= last && !m.forgets() {
			m.findf("hears of %d, set by %#x, after %#x", v.Count, v.Zxid, last)
		}
		last = v.Zxid
	})
	m.last = func(context.Context) (int64, error) {
		n, err := count.Count()
		return int64(n), err
	}
	m.raise = func(ctx context.Context) {
		before, err := count.VersionedCount()
		if err != nil { // the process was killed
			m.logf("the count: %v", err)
			return
		}
		if ok, err := count.TrySetCount(ctx, before, before.Count+1); ok || err != nil {
			m.count(int64(before.Count)+1, err)
		}
	}
	return nil
}

func (m *member) count(value int64, err error) {
	if m.logf("counts %d: %v", value, err); m.o.is("faults", "restores") {
		return
	}
	m.all.Lock()
	defer m.all.Unlock()
	c := &m.all.counter
	switch {
	case framework.OutcomeUnknown(err):
		c.inDoubt++
	case err == nil && c.given[value]:
		defer m.findf("%d was given again", value)
	case err == nil:
		if len(c.given) > 1 {
			m.all.chance(ruleCounted)
		}
		if c.given == nil {
			c.given = make(map[int64]bool)
		}
		c.given[value] = true
	}
}

// transfer moves an amount from one account to another.
func (m *member) transfer(ctx context.Context, random *rand.Rand, opts ...txn.Option) error {
	order, amount := random.Perm(len(accounts)), random.IntN(50)
	if random.IntN(2) == 0 {
		opts = append(opts, txn.VersionsOnly()) // no look before the commit finds what the versions would
	}
	return txn.Do(ctx, m.client, func(tx *txn.Tx) error {
		for i, change := range []int{-amount, amount} {
			path := accounts[order[i]]
			data, err := tx.Get(path)
			if err != nil {
				return err
			}
			sleep(ctx, upTo(random, time.Second)) // another transfer may come between
			balance, err := strconv.Atoi(string(data))
			if err == nil {
				err = tx.Set(path, strconv.AppendInt(nil, int64(balance+change), 10))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, opts...)
}

var errTorn = errors.New("the accounts have another sum")

// audit finds an error that comes from two states of the accounts.
func (m *member) audit(ctx context.Context, random *rand.Rand) {
	for range 5 {
		err := txn.Do(ctx, m.client, func(tx *txn.Tx) error {
			sum := 0
			for _, path := range accounts {
				data, err := tx.Get(path)
				if err != nil {
					return err
				}
				balance, err := strconv.Atoi(string(data))
				if err != nil {
					return err
				}
				sum += balance
				sleep(ctx, upTo(random, 500*time.Millisecond))
			}
			if sum != 100*len(accounts) {
				m.all.chance(ruleTorn)
				return errTorn
			}
			return nil
		})
		m.logf("audit: %v", err)
		if errors.Is(err, errTorn) {
			m.findf("the accounts: %v", err)
		}
	}
}

func (all *truth) settleCounter(ctx context.Context, m *member) {
	for _, other := range all.members {
		last, err := other.last(ctx)
		if n := len(all.counter.given); err != nil || !m.o.is("faults", "restores") && (last < int64(n) || last > int64(n+all.counter.inDoubt)) {
			other.findf("the counter is %d after %d increments and %d in doubt: %v", last, n, all.counter.inDoubt, err)
		}
	}
	sum := 0
	for _, z := range m.znodes("/accounts") {
		n, _ := strconv.Atoi(string(z.Data)) // the folder has no data
		sum += n
	}
	if sum != 100*len(accounts) && m.o.plays("transactions") {
		m.findf("the accounts have %d together", sum)
	}
}
