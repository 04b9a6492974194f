// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/recipes/locks/internal/line"
)

// lookFirst makes a try fail before it creates a node, if a contender is in the way. A node
// that cannot get the lock would be in the way of other tries. When contenders may be there
// lookFirst asks for a list, a read instead of two writes. It returns the announced trial if
// the try may create its node.
func (l *lock) lookFirst(ctx context.Context, driver LockInternalsDriver) (*line.Try, error) {
	if !l.client.State().IsConnected() || l.client.Session() == nil {
		// A read waits for a connection as long as any verb, and its error says what is wrong.
		_, err := l.client.Children(ctx, l.path)
		if absent(err) != nil {
			return nil, err
		}
	}
	if !standsLast(driver) {
		return nil, nil //nolint:nilnil // without an order a newcomer's place is not known
	}
	maxLeases, err := l.currentMax(ctx)
	if err != nil {
		return nil, err
	}
	// After a success the lock is expected to be free: skip the list unless this client
	// itself has contenders in the way.
	if !l.failed.within(tryMemory) {
		if t, _ := l.announce(nil, maxLeases); t != nil {
			return t, nil
		}
	}
	for {
		contenders, err := l.line.List(ctx, true, lister{l})
		if absent(err) != nil { // no folder, no contenders
			return nil, err
		}
		t, before := l.announce(contenders, maxLeases)
		switch {
		case t != nil:
			return t, nil
		case len(before) == 0 || !l.admits(contenders, nil, maxLeases):
			l.failed.set()
			return nil, l.notAcquired(contenders, nil)
		}
		// Only tries before ours are in the way. Their nodes may be in the list already and count
		// twice, or not come to be at all.
		select {
		case <-before[0].Over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// announce announces a try that may get the lock behind the contenders and the tries that
// were announced before it. It returns nil if the try may not get it. It returns the tries
// before it in either case.
func (l *lock) announce(contenders []string, maxLeases int) (admitted *line.Try, before []*line.Try) {
	t := line.NewTry(l.lockName)
	before = l.line.Announce(t)
	defer func() {
		if admitted == nil { // or the driver has panicked
			l.line.Withdraw(t)
		}
	}()
	if l.admits(contenders, before, maxLeases) {
		return t, before
	}
	return nil, before
}

// noteTry remembers how the last try ended.
func (l *lock) noteTry(err error) {
	switch {
	case err == nil:
		l.failed.clear()
	case errors.Is(err, ErrNotAcquired):
		l.failed.set()
	}
}

// overtaken returns the error of an acquisition that has failed with err. If its context has
// ended before it has looked at the queue, it may still know that a contender of this process
// is in the way.
func (l *lock) overtaken(ctx context.Context, e entry, err error) error {
	maxLeases, fixed := l.maxLeases.(FixedLeases)
	if ctx.Err() == nil || errors.Is(err, ErrNotAcquired) || !fixed || !standsLast(e.driver) {
		return err
	}
	contenders := l.alive()
	if l.admits(contenders, nil, int(maxLeases)) {
		return err
	}
	return l.notAcquired(contenders, ended(ctx))
}

// alive returns the names of the acquisitions of this process that hold the lock or wait.
func (l *lock) alive() []string {
	var names []string
	for _, p := range l.line.Own() {
		names = append(names, p.Name())
	}
	return names
}

// admits reports whether a newcomer may get the lock behind these contenders, the
// acquisitions of this process and the tries before it. It is true when that cannot be
// known, as when names do not end with the server's number.
func (l *lock) admits(contenders []string, before []*line.Try, maxLeases int) bool {
	queue := slices.Clone(contenders)
	for _, name := range l.alive() {
		if !slices.Contains(contenders, name) {
			queue = append(queue, name)
		}
	}
	slices.SortFunc(queue, l.driver.Compare)
	number := int32(-1)
	if len(queue) > 0 {
		var ok bool
		if number, ok = trailingNumber(queue[len(queue)-1]); !ok {
			return true
		}
	}
	// Make up the names that the server would give to the tries before ours, and to ours.
	for _, t := range append(before, &line.Try{LockName: l.lockName}) {
		number++
		queue = append(queue, fmt.Sprintf("%s%010d", t.LockName, number))
	}
	ours := queue[len(queue)-1]
	if number <= 0 && len(queue) > 1 || !l.driver.Contends(ours) || !slices.IsSortedFunc(queue, l.driver.Compare) {
		return true // the count has wrapped, or the driver names its nodes otherwise
	}
	result, err := l.driver.GetsTheLock(queue, ours, maxLeases)
	return err != nil || result.GetsTheLock
}
