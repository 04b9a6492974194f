// SPDX-License-Identifier: Apache-2.0

// What becomes of others in the situations that recipes/locks is tested in: zk.Lock of
// go-zookeeper v1.0.4 and InterProcessMutex of Curator 5.4, known peers. That they do not
// pass everywhere shows that the scenarios can be failed; each test asserts what the peer
// does, so that it fails when a later version of the peer does better, and logs how often.
//
// In the files beside this one, by what happens:
//
//	the holder is cut off, or its node deleted, and a rival enters
//		TestPeerZKLockHolderIsCutOff, TestPeerZKLockIsOfNoUseAfterALoss,
//		TestPeerCuratorHolderIsCutOff, TestPeerCuratorHolderHearsNothing
//	the reply to the creation of the node is lost
//		TestPeerZKLockLostCreate, TestPeerZKLockLostCreateWithAForeignChild, TestPeerCuratorLostCreate
//	a node of the session before is still listed
//		TestPeerZKLockNodeOfTheOldSession, TestPeerCuratorNodeOfTheOldSession
//	requests or replies of an acquisition are lost
//		TestPeerZKLockLosesARequest, TestPeerCuratorLosesARequest, TestPeerCuratorFailsWithoutAConnection
//	something happens to one who waits
//		TestPeerZKLockWaiter, TestPeerZKLockWaitersNodeIsDeleted,
//		TestPeerCuratorWaiter, TestPeerCuratorHolderLeavesBeforeTheWatch
//	there is a foreign node in the folder
//		TestPeerZKLockForeignChild, TestPeerCuratorForeignChild
//	a release is repeated, somebody else's, or without a connection
//		TestPeerZKLockUnlock, TestPeerCuratorRelease
package interop_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// peerTrials is how often a scenario is repeated that costs no time.
const peerTrials = 20

// foreignNames are those of nodes that have no business in the folder of a lock.
var foreignNames = []string{"README", "lock-x", "lock--1", "0"}

// tally counts how trials came out.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

// note counts one trial for the outcome. A trial may have several.
func (c *tally) note(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[outcome]++
}

func (c *tally) of(outcome string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[outcome]
}

// log writes one line for the scenario.
func (c *tally) log(tb testing.TB, trials int) {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(c.counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d of %d", outcome, c.counts[outcome], trials))
	}
	tb.Log(strings.Join(parts, "; "))
}
