// SPDX-License-Identifier: Apache-2.0

package locktest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standard is a driver that makes the standard one's decisions, but for what a test changes.
type standard struct {
	locks.StandardLockInternalsDriver

	change func(contenders []string, ours string, result *locks.PredicateResults)
}

func newStandard() standard {
	return standard{StandardLockInternalsDriver: locks.StandardLockInternalsDriver{
		StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: "lock-"},
	}}
}

func (d standard) GetsTheLock(contenders []string, ours string, maxLeases int) (locks.PredicateResults, error) {
	result, err := d.StandardLockInternalsDriver.GetsTheLock(contenders, ours, maxLeases)
	if err == nil && d.change != nil {
		d.change(contenders, ours, &result)
	}
	return result, err
}

// backwards lets the newest in first.
type backwards struct{ standard }

func (b backwards) Compare(x, y string) int { return b.standard.Compare(y, x) }

// late panics on the goroutines that contend, or ends them.
type late struct {
	standard
	exits bool
}

func (l late) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (locks.LockNode, error) {
	switch {
	case !strings.HasPrefix(path, "/contention/"):
	case l.exits:
		runtime.Goexit()
	default:
		panic("late")
	}
	return l.standard.CreatesTheLock(ctx, client, session, path, data)
}

// recorded is a test whose errors are kept.
type recorded struct {
	testing.TB

	errors []string
}

func (r *recorded) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// Drivers that are right pass.
func TestDriversThatAreRight(t *testing.T) {
	for leases := 1; leases <= 3; leases += 2 {
		locktest.CheckDriver(t, newStandard(), "lock-", leases)
		locktest.CheckDriver(t, newStandard(), "lock-", leases)
	}
}

// Drivers that are wrong do not.
func TestDriversThatAreWrong(t *testing.T) {
	with := func(change func(contenders []string, ours string, result *locks.PredicateResults)) locks.LockInternalsDriver {
		d := newStandard()
		d.change = change
		return d
	}
	for name, test := range map[string]struct {
		driver locks.LockInternalsDriver
		want   string
	}{
		"two at once": {with(func(contenders []string, ours string, result *locks.PredicateResults) {
			result.GetsTheLock = slices.Index(contenders, ours) < 2
		}), "at once, expected 1 at most"},
		"none": {with(func(_ []string, _ string, result *locks.PredicateResults) { result.GetsTheLock = false }), "lets in none"},
		"itself": {with(func(_ []string, ours string, result *locks.PredicateResults) {
			result.PathsToWatch = []string{ours}
		}), "wait for itself"},
		"nobody": {with(func(_ []string, _ string, result *locks.PredicateResults) {
			result.PathsToWatch = []string{"nobody"}
		}), `wait for "nobody", which is none`},
		"twice": {with(func(_ []string, _ string, result *locks.PredicateResults) {
			result.PathsToWatch = append(result.PathsToWatch, result.PathsToWatch...)
		}), "wait for another twice"},
		"changes":          {with(func(contenders []string, _ string, _ *locks.PredicateResults) { slices.Reverse(contenders) }), "changes the contenders"},
		"panics":           {with(func([]string, string, *locks.PredicateResults) { panic("boom") }), "panicked: boom"},
		"panics late":      {late{newStandard(), false}, "panicked: late"},
		"exits":            {late{newStandard(), true}, "ended its goroutine"},
		"a newcomer first": {backwards{newStandard()}, "lets a newcomer in before one that holds the lock"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorded{TB: t}
			locktest.CheckDriver(r, test.driver, "lock-", 1)
			require.Contains(t, strings.Join(r.errors, "\n"), test.want)
		})
	}
}
