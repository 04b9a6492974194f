// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"sync"

	"github.com/gocurator/curator/testing/zksim"
)

// The rules. A history could have broken one of them if what the rule is about has come to pass.
const (
	ruleLockDelay      = "no hold begins within the lock delay after a loss"
	ruleSlotDelay      = "no process takes a number within its delay after a loss"
	ruleShortLived     = "contenders that live for less than the lock delay get the lock in the end"
	ruleRefused        = "what a holder writes under its lease after its end is refused"
	ruleLongest        = "no hold lasts for longer than it may"
	ruleAsked          = "a holder that is asked gives way"
	rulePlaces         = "the place of a waiter only falls"
	rulePermits        = "no more permits than there are"
	ruleTokens         = "no leader writes after a later one"
	ruleItemLost       = "no item is lost"
	ruleItemOnce       = "an item has one result, and is in the queue no more"
	ruleDue            = "no item is given before it is due"
	ruleItemOrder      = "items are given in the order in which they were put"
	ruleFailed         = "an item with which consumers fail comes as often as it may"
	ruleHandedOver     = "a process gets an item that another one has given back"
	ruleDeadLetter     = "an item is a dead letter, or in the queue, or has a result"
	ruleOnce           = "no job begins again that is done"
	ruleMarker         = "the marker of a job is of the run that has succeeded"
	ruleRetention      = "a marker goes after its time"
	ruleItemWritten    = "an item that was written is taken all the same"
	ruleCounted        = "each number of a counter is given once"
	ruleTorn           = "an error of a transaction comes from one state"
	ruleGateHolds      = "no process passes a barrier that is set"
	ruleGateOpens      = "all processes pass a barrier that is removed"
	ruleMeet           = "no process enters a double barrier alone"
	rulePart           = "no process has left a double barrier before the others begin to"
	ruleMeetAgain      = "a double barrier opens and closes again"
	ruleMembers        = "each member of a group knows the others, and their newest data"
	ruleOutlives       = "a znode with a time to live is there while its process lives, and gone after it"
	ruleAccounts       = "what transactions move is neither lost nor made"
	ruleRegistered     = "an instance that is registered is there"
	ruleUnregistered   = "an instance whose process was killed is gone"
	ruleFound          = "all processes find the instances that there are"
	ruleKept           = "a znode that is kept is there, with its newest data"
	ruleViews          = "a picture of the tree is as the tree"
	ruleOwned          = "each partition is at one member"
	ruleRead           = "what is told of a group is so, and is balanced in the end"
	rulePhases         = "the phases of a partition at its member follow on each other"
	ruleExcluded       = "a partition that is excluded is at no member"
	ruleExcludedUnread = "a partition that is excluded while the set cannot be read is at no member"
	ruleShrunk         = "a partition that is in the set no more is at no member"
	rulePinned         = "a partition that is pinned is at that member"
	ruleDrained        = "a drained member gives its partitions up, also if one function hangs"
	ruleStandbys       = "each partition has a standby, in another zone"
	ruleTickOnce       = "a tick of a job that is at most once begins once"
	ruleOrder          = "ticks begin in their order"
	rulePaused         = "no tick begins in a pause"
	ruleSkipped        = "no tick begins that was skipped"
	ruleNoneLost       = "no tick is lost"
	rulePauseCaughtUp  = "the ticks of a pause are run after it"
	ruleFirstList      = "a job in two lists is run by the first"
	ruleGone           = "a job that is in no list any more does not run"
	ruleDead           = "only a client that has gone is called lost"
	ruleAlive          = "only a client that answers is called alive"
	ruleSilent         = "only a client that does not answer is called silent"
	ruleTracked        = "a client that follows the ensemble knows its servers"
	ruleHolders        = "only a holder is called a holder"
	ruleWell           = "nothing is called wrong when nothing is"
	ruleIll            = "while a server is away, a client that is gone is called so, or not known"
	ruleDeadlock       = "two clients that wait for each other are called a deadlock"
	ruleNoDeadlock     = "nothing else is called a deadlock"
	ruleLoad           = "holds have the length that contention says"
	ruleStranger       = "a znode that keeps contenders out is named"
)

var rules = append([]string{
	ruleMembers, ruleOutlives, ruleTorn, ruleGateHolds, ruleGateOpens, ruleMeet, rulePart, ruleMeetAgain, ruleShortLived, ruleRefused, ruleLockDelay, ruleSlotDelay, ruleLongest, ruleAsked, rulePlaces, rulePermits, ruleTokens, ruleItemLost, ruleItemOnce, ruleDue, ruleItemOrder, ruleFailed, ruleHandedOver, ruleDeadLetter, ruleOnce, ruleMarker, ruleRetention, ruleItemWritten, ruleCounted, ruleAccounts,
	ruleRegistered, ruleUnregistered, ruleFound, ruleKept, ruleViews, ruleOwned, ruleRead, rulePhases, ruleExcluded, ruleExcludedUnread, ruleShrunk, rulePinned, ruleDrained, ruleStandbys,
	ruleTickOnce, ruleOrder, rulePaused, ruleSkipped, ruleNoneLost, rulePauseCaughtUp, ruleFirstList, ruleGone, ruleDead, ruleAlive, ruleSilent,
	ruleTracked, ruleHolders, ruleWell, ruleIll, ruleDeadlock, ruleNoDeadlock, ruleLoad, ruleStranger,
}, theExclusive()...)

// exclusive are what only one process may hold at a time.
var exclusive = []string{"mutex", "both", "election", "slots", "cross", "partition", "job"}

func theExclusive() (all []string) {
	for _, what := range exclusive {
		all = append(all, ruleExclusive(what))
	}
	return all
}

func ruleExclusive(what string) string { return "no two processes hold one thing: " + what }

// chances are the rules that a history could have broken.
type chances struct {
	mu      sync.Mutex // guards all below
	rules   map[string]bool
	holders map[string]int // the last one of what is exclusive
}

func (c *chances) add(rule string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rules == nil {
		c.rules = make(map[string]bool)
	}
	c.rules[rule] = true
}

// addTo counts the rules that this history could have broken.
func (c *chances) addTo(counts map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rule := range c.rules {
		counts[rule]++
	}
}

// follows notes a holder, and reports whether another process held the same before.
func (c *chances) follows(key string, client int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holders == nil {
		c.holders = make(map[string]int)
	}
	before, isHeld := c.holders[key]
	c.holders[key] = client
	return isHeld && before != client
}

// chance notes that a rule could have been broken.
func (all *truth) chance(rule string) { all.chances.add(rule) }

// entered has the world judge a hold of something of a kind.
func (m *member) entered(kind string, h zksim.Hold) (leave func()) {
	if m.forgets() || h.IsOver() { // or an operator has ended the hold before its process had it
		return func() {}
	}
	if m.o.is("faults", "restores") { // tokens compare within a history
		h.Token = 0
	}
	if h.Exclusive && m.all.chances.follows(h.Key, h.Client) && slices.Contains(exclusive, kind) {
		m.all.chance(ruleExclusive(kind))
	}
	return m.w.Enter(h)
}
