package locks

import (
	"fmt"
	"slices"
)

// check returns an error if the decision of a driver cannot be right.
func (a *acquisition) check(result PredicateResults, contenders []string) error {
	if result.GetsTheLock {
		return a.checkHolders(contenders)
	}
	for i, name := range result.PathsToWatch {
		switch {
		case name == a.name:
			return fmt.Errorf("%s has to wait for itself, expected others", name)
		case slices.Contains(result.PathsToWatch[:i], name):
			return fmt.Errorf("%s has to wait for %s twice, expected names that differ", a.name, name)
		case !slices.Contains(contenders, name):
			return fmt.Errorf("%s has to wait for %q, expected one of the contenders", a.name, name)
		}
	}
	return nil
}

// checkHolders returns an error if the driver lets ours in before an acquisition of this
// process that holds the lock and would not be let in now.
func (a *acquisition) checkHolders(contenders []string) error {
	overtaking, ok := a.driver.(OvertakingQueue)
	_, fixed := a.l.maxLeases.(FixedLeases)
	// A maximum that was lowered takes no lease away, so it proves nothing.
	if ok && overtaking.Overtakes() || !fixed {
		return nil
	}
	i := slices.Index(contenders, a.name)
	for _, name := range contenders[i+1:] {
		m := a.folder.member(name)
		if m == nil || !m.granted.isSet() || m.over.hasEnded() {
			continue
		}
		result, err := a.driver.GetsTheLock(contenders, name, a.max.n)
		if err != nil || !result.GetsTheLock {
			return fmt.Errorf("%s is let in before %s, which holds the lock: expected no newcomer before a holder",
				a.name, name)
		}
	}
	return nil
}
