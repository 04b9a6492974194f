// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zksim"
)

// done are the runs that have succeeded, by their keys, or those that have begun and must be the only ones.
type done map[string]run

// run is one run of a job.
type run struct {
	token int64
	at    time.Time // when it was known that the job is done
}

// retention is how long a marker stays.
const retention = time.Minute

// once prepares jobs that are done once for a key.
func (m *member) once() error {
	var opts []leader.OnceOption
	never := m.o.is("once", "never again")
	if never {
		opts = append(opts, leader.NeverAgain())
	}
	if m.o.is("retention", "1m") {
		opts = append(opts, leader.WithRetention(retention))
	}
	once, err := leader.NewOnce(m.client, "/once", opts...)
	if err != nil {
		return err
	}
	m.runOnce = func(ctx context.Context, key string, lasts time.Duration, fails error) (ran bool, err error) {
		if _, is := m.doneBy(key); is {
			m.all.chance(ruleOnce)
		}
		token := int64(0)
		ran, err = once.Do(ctx, key, func(ctx context.Context) error {
			lease := locks.LeaseFrom(ctx)
			token = lease.Token()
			defer m.entered("once", zksim.Hold{Key: "/once/" + key, Client: m.c.Index, Exclusive: true, IsOver: m.isOver(lease)})()
			if by, again := m.doneBy(key); again && (never || ctx.Err() == nil) && !m.forgets() {
				m.findf("begins %s, which the run %#x has done", key, by)
			}
			if never {
				m.does(key, token)
			}
			sleep(ctx, lasts)
			return cmp.Or(fails, context.Cause(ctx))
		})
		m.logf("%s: ran %t: %v", key, ran, err)
		if ran && err == nil && !never {
			m.does(key, token)
		}
		return ran, err
	}
	m.acts["once"] = func(ctx context.Context, random *rand.Rand) {
		_, _ = m.runOnce(ctx, "key-"+strconv.Itoa(random.IntN(3)), upTo(random, time.Second), nil)
	}
	return nil
}

func (m *member) doneBy(key string) (token int64, is bool) {
	m.all.Lock()
	defer m.all.Unlock()
	done, is := m.all.done[key]
	return done.token, is && !m.isForgotten(done)
}

// isForgotten reports whether the marker of a run may be gone.
func (m *member) isForgotten(r run) bool {
	return m.o.is("retention", "1m") && time.Since(r.at) > retention*97/100
}

// does notes a run. It finds one of a key that another run has done.
func (m *member) does(key string, token int64) {
	if m.forgets() {
		return
	}
	m.all.Lock()
	defer m.all.Unlock()
	if by, twice := m.all.done[key]; twice && !m.isForgotten(by) {
		defer m.findf("%s has run twice, by %#x and %#x", key, by.token, token)
	}
	if m.all.done == nil {
		m.all.done = make(done)
	}
	m.all.done[key] = run{token, time.Now()}
}

// settleOnce has a job run without faults, and finds markers of other runs.
func (all *truth) settleOnce(ctx context.Context, m *member) {
	if !m.o.plays("once") {
		return
	}
	runs := 0
	for _, other := range all.sorted() {
		ran, err := other.runOnce(ctx, "last", 0, nil)
		if err != nil {
			other.findf("the last job: %v", err)
		}
		if ran {
			runs++
		}
	}
	if runs != 1 {
		m.findf("%d processes have run a job that is done once", runs)
	}
	failed := errors.New("it has failed")
	_, err := m.runOnce(ctx, "failing", 0, failed)
	again, _ := m.runOnce(ctx, "failing", 0, nil)
	if !errors.Is(err, failed) || again == m.o.is("once", "never again") {
		m.findf("a job that has failed runs again: %t, after %v", again, err)
	}
	for key, by := range all.done {
		all.chance(ruleMarker)
		marker := m.znodes("/once/done/" + key)
		isIt := len(marker) == 1 && string(marker[0].Data) == strconv.FormatInt(by.token, 10)
		if !isIt && (len(marker) > 0 || !m.isForgotten(by)) {
			m.findf("%s was done by the run %#x, and its marker is %v", key, by.token, marker)
		}
	}
	all.settleRetention(ctx, m)
}

// settleRetention finds markers that stay for too long.
func (all *truth) settleRetention(ctx context.Context, m *member) {
	if !m.o.is("retention", "1m") {
		return
	}
	all.chance(ruleRetention)
	time.Sleep(retention * 103 / 100)
	_, err := m.runOnce(ctx, "newest", 0, nil)
	time.Sleep(5 * time.Second) // markers are deleted in the background
	if markers := m.znodes("/once/done"); err != nil || len(markers) != 2 {
		m.findf("markers after their time, but for the newest: %v, %v", markers, err)
	}
}
