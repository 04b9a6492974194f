package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
)

// tryMemory is for how long a try that has failed makes the next one look before it
// creates a node.
const tryMemory = 10 * time.Second

// lookFirst has a try fail before it creates a node if a contender is known to be in the
// way: a node that cannot get the lock would be in the way of others. If one may be there,
// it asks for a list, which costs a read and not two writes; so it does without a
// connection, as a read is bounded and says why there is none.
func (l *LockInternals) lookFirst(ctx context.Context, f *folder, driver LockInternalsDriver) (*trial, error) {
	connected := l.client.State().IsConnected() && l.client.Session() != nil
	if !standsLast(driver) && connected {
		return nil, nil //nolint:nilnil // without an order a newcomer's place is not known
	}
	if !connected {
		if _, err := l.client.Children(ctx, l.path); err != nil && !errors.Is(err, framework.ErrNoNode) {
			return nil, err
		}
		if !standsLast(driver) {
			return nil, nil //nolint:nilnil // as above
		}
	}
	maxLeases, err := l.currentMax(ctx)
	if err != nil {
		return nil, err
	}
	_, lockName := framework.SplitPath(l.basePath)
	t := &trial{lockName}
	if !l.failed.within(tryMemory) {
		if l.admits(f, nil, f.announce(t), maxLeases) {
			return t, nil
		}
		f.withdraw(t)
	}
	contenders, err := l.listed(ctx, f)
	if err != nil {
		return nil, err
	}
	if l.admits(f, contenders, f.announce(t), maxLeases) {
		return t, nil
	}
	f.withdraw(t)
	l.failed.set()
	return nil, l.notAcquired(f, contenders, nil)
}

func (l *LockInternals) noteTry(err error) {
	switch {
	case err == nil:
		l.failed.clear()
	case errors.Is(err, ErrNotAcquired):
		l.failed.set()
	}
}

// listed returns the contenders by a list that is newer than this moment.
func (l *LockInternals) listed(ctx context.Context, f *folder) ([]string, error) {
	for {
		number := f.question()
		err := f.list(ctx, l, number)
		if errors.Is(err, framework.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if contenders, known := f.queue(l, number); known {
			return contenders, nil
		}
	}
}

// overtaken returns the error of an acquisition whose context has ended. One that has not
// come to look may know all the same that a contender of this process is in the way.
func (l *LockInternals) overtaken(ctx context.Context, e entry, err error) error {
	maxLeases, fixed := l.maxLeases.(FixedLeases)
	if errors.Is(err, ErrNotAcquired) || !fixed || !standsLast(e.driver) {
		return err
	}
	folder := l.openFolder()
	defer folder.close()
	contenders := slices.DeleteFunc(folder.alive(), func(name string) bool { return !l.driver.Contends(name) })
	slices.SortFunc(contenders, l.driver.Compare)
	if l.admits(folder, contenders, nil, int(maxLeases)) {
		return err
	}
	return l.notAcquired(folder, contenders, ended(ctx))
}

// standsLast reports whether a newcomer stands behind all contenders.
func standsLast(driver LockInternalsDriver) bool {
	_, shrinking := driver.(ShrinkingQueue)
	newcomer, ok := driver.(newcomerDriver)
	return shrinking && (!ok || newcomer.standsLast())
}

// trial is one try that may be about to create its node.
type trial struct{ lockName string }

// announce makes a try known that may create its node, and returns those before it.
func (f *folder) announce(t *trial) (before []*trial) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = slices.Clone(f.coming)
	f.coming = append(f.coming, t)
	return before
}

func (f *folder) withdraw(t *trial) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.withdrawLocked(t)
}

func (f *folder) withdrawLocked(t *trial) {
	if i := slices.Index(f.coming, t); i >= 0 {
		f.coming = slices.Delete(f.coming, i, i+1)
	}
}

// admits reports whether a newcomer would get the lock behind these contenders, the
// acquisitions of this process and the tries before it. A driver whose names do not end
// with the number of the server is not asked: then only the server knows.
func (l *LockInternals) admits(f *folder, contenders []string, before []*trial, maxLeases int) bool {
	queue := slices.Clone(contenders)
	for _, name := range f.alive() {
		if l.driver.Contends(name) && !slices.Contains(contenders, name) {
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
	_, lockName := framework.SplitPath(l.basePath)
	for _, t := range append(before, &trial{lockName}) {
		number++
		queue = append(queue, fmt.Sprintf("%s%010d", t.lockName, number))
	}
	ours := queue[len(queue)-1]
	if number <= 0 && len(queue) > 1 || !l.driver.Contends(ours) || !slices.IsSortedFunc(queue, l.driver.Compare) {
		return true // the count has wrapped, or the names are of another kind
	}
	result, err := l.driver.GetsTheLock(queue, ours, maxLeases)
	return err != nil || result.GetsTheLock
}

// trailingNumber returns the number that the server has appended to a name.
func trailingNumber(name string) (int32, bool) {
	if len(name) < 10 {
		return 0, false
	}
	return StandardLockInternalsSorter{name[:len(name)-10]}.Sequence(name)
}
