// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// Kind is a kind of recipe, as far as the names of its znodes show it.
type Kind string

// The kinds.
const (
	// Mutex is an InterProcessMutex, a LeaderSelector, Curator's first semaphore or a zk.Lock.
	Mutex Kind = "mutex"

	// ReadWrite is an InterProcessReadWriteLock.
	ReadWrite Kind = "read-write"

	// Semaphore is an InterProcessSemaphoreV2 or an InterProcessSemaphoreMutex.
	Semaphore Kind = "semaphore"

	// Slots is a set of numbers, each with one holder; see package slots.
	Slots Kind = "slots"

	// LeaderLatch is an election of LeaderLatches.
	LeaderLatch Kind = "latch"

	// KazooLock is a Lock, ReadLock or WriteLock of Python's kazoo, or its Election.
	KazooLock Kind = "kazoo-lock"

	// KazooSemaphore is kazoo's Semaphore. Its maximum is in its znode.
	KazooSemaphore Kind = "kazoo-semaphore"

	// Queue is a DistributedQueue of any kind, or a SimpleDistributedQueue.
	Queue Kind = "queue"

	// DoubleBarrier is a DistributedDoubleBarrier with members.
	DoubleBarrier Kind = "double-barrier"

	// Service is the folder of the instances of a service, as x-discovery registers them.
	Service Kind = "service"

	// Partitions is a group of members that divide partitions; package partition reads who has
	// what. The lock of each partition is a recipe of its own below.
	Partitions Kind = "partitions"

	// Jobs is a fleet with jobs on a schedule; package schedule reads where each stands. The lock of
	// each job, and the groups that divide the jobs, are recipes of their own below.
	Jobs Kind = "jobs"
)

// IsLock reports whether participants of the kind hold something or wait for it: it is true
// for locks, semaphores and elections.
func (k Kind) IsLock() bool {
	switch k {
	case Mutex, ReadWrite, Semaphore, Slots, LeaderLatch, KazooLock, KazooSemaphore:
		return true
	default:
		return false
	}
}

// hasPermits reports whether several contenders of the kind hold at a time, and a waiter gets what the first of them gives back.
func (k Kind) hasPermits() bool { return k == Semaphore || k == KazooSemaphore || k == Slots }

// family is one way of naming contenders: one with the exclusive name is let in alone,
// several with the shared name together.
type family struct {
	kind              Kind
	exclusive, shared string
	begins            func(string) bool // reports whether a library puts this before the lock name
}

const (
	mutexName = "lock-"
	leaseName = "lease-"

	slotName   = "slot-"  // before the number and the number of the node
	markerName = "taken-" // and a number, of a slot with a delay

	leasesFolder = "leases" // of a semaphore
	turnsFolder  = "locks"

	itemName = "queue-"

	kazooTurns = "-__lock__" // ends the path of a kazoo semaphore's own lock

	readyName = "ready" // opens a double barrier

	membersFolder = "members" // of a group that divides partitions, beside its locks and its plan
	planFolder    = "plan"

	jobsFolder  = "jobs" // of a fleet, with a folder for each job, beside the groups that divide them
	groupFolder = "fleets"
	stateName   = "state" // in the folder of a job
)

var families = []family{
	{Mutex, mutexName, "", func(s string) bool { return isCurators(s) || isZkLocks(s) }},
	{ReadWrite, "__WRIT__", "__READ__", isCurators},
	{LeaderLatch, "latch-", "", isCurators},
	{Semaphore, "", leaseName, isCurators},
	{KazooLock, "__lock__", "__rlock__", isKazoos},
}

func isCurators(begin string) bool {
	return len(begin) == 40 && begin[:3] == "_c_" && isUUID(begin[3:39], true) && begin[39] == '-'
}

func isZkLocks(begin string) bool {
	return len(begin) == 36 && begin[:3] == "_c_" && isUUID(begin[3:35], false) && begin[35] == '-'
}

func isKazoos(begin string) bool { return isUUID(begin, false) }

// contender is a name in a queue.
type contender struct {
	name     string
	lockName string
	number   int32
	shared   bool

	// isForeign says that no library names its contenders so. Every contender waits for it all the same, because
	// they look at the end of a name only.
	isForeign bool
}

// contenders are the names of one family in one folder, in the order of the queue.
type contenders struct {
	family
	queue []contender
}

// parse returns the family of a name.
func parse(name string) (f family, c contender, ok bool) {
	if lockName, ok := slotIn(name); ok {
		number, ok := (locks.StandardLockInternalsSorter{LockName: lockName}).Sequence(name)
		return family{kind: Slots, exclusive: lockName}, contender{name: name, lockName: lockName, number: number}, ok
	}
	for _, f := range families {
		for _, lockName := range []string{f.exclusive, f.shared} {
			if lockName == "" {
				continue
			}
			number, ok := (locks.StandardLockInternalsSorter{LockName: lockName}).Sequence(name)
			if !ok {
				continue
			}
			begin := name[:strings.LastIndex(name, lockName)]
			return f, contender{name, lockName, number, lockName == f.shared, !f.begins(begin)}, true
		}
	}
	return family{}, contender{}, false
}

// slotIn returns the part of a name that is common to all contenders for one number of [Slots].
func slotIn(name string) (lockName string, ok bool) {
	if len(name) < 40 || !isCurators(name[:40]) || !strings.HasPrefix(name[40:], slotName) {
		return "", false
	}
	number, _, ok := strings.Cut(name[40+len(slotName):], "-")
	return slotName + number + "-", ok && isNumber(number)
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// Slot returns the number that a participant of [Slots] has, and false for others.
func Slot(p locks.Participant) (number string, ok bool) {
	if number, ok = strings.CutPrefix(p.LockName, slotName); !ok {
		return "", false
	}
	return strings.TrimSuffix(number, "-"), true
}

// folder is what the names in a folder tell.
type folder struct {
	queues  []contenders
	items   []string // of a queue
	members []string // named by UUIDs with dashes
	permits []string // of a kazoo semaphore: named by UUIDs without
	others  []string
}

// classify reads the names of the children of a folder.
func classify(names []string) folder {
	var in folder
	for _, name := range names {
		f, c, isContender := parse(name)
		switch {
		case isContender:
			at := slices.IndexFunc(in.queues, func(q contenders) bool { return q.kind == f.kind })
			if at < 0 {
				at = len(in.queues)
				in.queues = append(in.queues, contenders{family: f})
			}
			in.queues[at].queue = append(in.queues[at].queue, c)
		case isItem(name):
			in.items = append(in.items, name)
		case isUUID(name, true):
			in.members = append(in.members, name)
		case isUUID(name, false):
			in.permits = append(in.permits, name)
		default:
			in.others = append(in.others, name)
		}
	}
	in.queues = slices.DeleteFunc(in.queues, func(q contenders) bool {
		if slices.ContainsFunc(q.queue, func(c contender) bool { return !c.isForeign }) {
			slices.SortFunc(q.queue, compare)
			return false
		}
		for _, c := range q.queue { // of some application
			in.others = append(in.others, c.name)
		}
		return true
	})
	slices.Sort(in.members)
	slices.Sort(in.permits)
	slices.Sort(in.others)
	return in
}

// folders returns the names of children that are read as folders.
func (in folder) folders() []string { return slices.Concat(in.others, in.members, in.permits) }

// isPart reports whether a folder may be part of a recipe at its parent, or beside it, by its name.
func isPart(path string) bool {
	_, name := framework.SplitPath(path)
	return name == leasesFolder || name == turnsFolder || name == membersFolder || isUUID(name, true) || isTurns(name)
}

// belongs reports whether a name is of a recipe in its folder, or of a part of one.
func belongs(name string) bool {
	_, c, isContender := parse(name)
	return isContender && !c.isForeign || isPart("/"+name) || isUUID(name, false) || isItem(name)
}

func isTurns(name string) bool { return strings.HasSuffix(name, kazooTurns) }

// compare orders by the number that the server gave, as every client does. A reader with the
// number of a writer was that writer, and is sorted after it.
func compare(a, b contender) int {
	switch d := framework.CompareSequence(a.number, b.number); {
	case d != 0:
		return d
	case a.shared != b.shared && a.shared:
		return 1
	case a.shared != b.shared:
		return -1
	default:
		return strings.Compare(a.name, b.name)
	}
}

// order goes through a queue, and says for each contender which one it waits for.
type order struct {
	next, last, beforeLast int // places from 1; those of the exclusive contenders that came last
	number                 int32
}

// of returns the place, from 0, of the contender that the next one waits for. It is below 0 for none.
func (o *order) of(c contender) int {
	o.next++
	switch {
	case !c.shared:
		o.last, o.beforeLast, o.number = o.next, o.last, c.number
		return o.next - 2
	case o.last > 0 && o.number == c.number:
		return o.beforeLast - 1 // this reader has taken the place of that writer
	default:
		return o.last - 1
	}
}

// isItem reports whether a name is an item of one of Curator's queues. In front of the number
// there may be a priority, or a time or an id between bars, and nothing else. A QueueSharder's
// folder is queue-<uuid>, and a UUID may end with ten decimal digits.
func isItem(name string) bool {
	if _, ok := framework.SequenceNumber(name, "qn-"); ok {
		return true
	}
	if !strings.HasPrefix(name, itemName) {
		return false
	}
	for _, digits := range []int{10, 11} { // 11 for the lowest numbers
		at := len(name) - digits
		if at < len(itemName) || !isItemPrefix(name[len(itemName):at]) {
			continue
		}
		if _, ok := framework.SequenceNumber(name, name[:at]); ok {
			return true
		}
	}
	return false
}

// isItemPrefix reports whether a producer puts the text between "queue-" and the number.
func isItemPrefix(text string) bool {
	const priority = 9 // a sign, 0 or 1, and eight digits
	switch {
	case text == "":
		return true
	case text[0] == '|':
		return len(text) > 1 && text[len(text)-1] == '|'
	default:
		return len(text) == priority && (text[0] == '0' || text[0] == '1') && strings.Trim(text, "0123456789ABCDEF") == ""
	}
}

// isUUID reports whether a name is a UUID in lower-case digits.
func isUUID(name string, dashes bool) bool {
	if dashes {
		if len(name) != 36 || name[8] != '-' || name[13] != '-' || name[18] != '-' || name[23] != '-' {
			return false
		}
		name = name[:8] + name[9:13] + name[14:18] + name[19:23] + name[24:]
	}
	return len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

// Client returns the library that has created a contender, as far as the name of its node
// shows it. It is "curator" for this library and Curator in Java, "zk.Lock" or "kazoo". It is
// "" for a name of another form.
func Client(p locks.Participant) string {
	_, name := framework.SplitPath(p.Path)
	_, c, ok := parse(name)
	begin := name
	if ok {
		begin = name[:strings.LastIndex(name, c.lockName)]
	}
	switch {
	case isCurators(begin):
		return "curator"
	case isZkLocks(begin):
		return "zk.Lock"
	case isKazoos(begin):
		return "kazoo"
	default:
		return ""
	}
}
