package locks

import (
	"fmt"
	"slices"
)

// checkNames returns an error if a driver has ours wait for names that cannot be right.
func checkNames(contenders []string, ours string, names []string) error {
	for i, name := range names {
		switch {
		case name == ours:
			return fmt.Errorf("%s has to wait for itself, expected others", name)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("%s has to wait for %s twice, expected names that differ", ours, name)
		case !slices.Contains(contenders, name):
			return fmt.Errorf("%s has to wait for %q, expected one of the contenders", ours, name)
		}
	}
	return nil
}

// overtakingQueue is a driver whose queue is not itself a lock, such as a waiting room in front
// of a mutex; see [LockInternalsDriver].
type overtakingQueue interface{ Overtakes() bool }

// checkHolders returns an error if a driver has let ours in before a contender that holds
// the lock and would not be let in now.
func checkHolders(driver LockInternalsDriver, contenders []string, ours string, maxLeases int, holds func(name string) bool) error {
	if overtaking, ok := driver.(overtakingQueue); ok && overtaking.Overtakes() {
		return nil
	}
	behind := contenders[slices.Index(contenders, ours)+1:]
	for _, name := range behind {
		if !holds(name) {
			continue
		}
		result, err := driver.GetsTheLock(contenders, name, maxLeases)
		if err != nil || !result.GetsTheLock {
			return fmt.Errorf("%s is let in before %s, which holds the lock: expected no newcomer before a holder", ours, name)
		}
	}
	return nil
}
