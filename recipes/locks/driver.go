// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gocurator/curator/framework"
)

// LockInternalsDriver is what makes one recipe differ from another: how a node is created,
// which nodes contend in which order, and which contender has the lock. A program composes
// a recipe of its own from a driver and [LockInternals]. It is Curator's
// LockInternalsDriver.
//
// A driver is shared by all acquisitions of a lock and must be safe for concurrent use. A
// panic of a driver reaches the caller of the acquisition, whose node is then deleted.
type LockInternalsDriver interface {
	LockInternalsSorter

	// CreatesTheLock creates the node of one acquisition. The node must be ephemeral, of the
	// given session, and have a name that is never used again, as with
	// [framework.WithProtection] and [framework.InSession]. An acquisition fails if the node is
	// not ephemeral, and starts again if it is another session's. On failure CreatesTheLock
	// leaves nothing behind.
	CreatesTheLock(ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte) (LockNode, error)

	// GetsTheLock decides from the sorted contenders whether ours has the lock, or which
	// contenders it waits for. It must not change contenders, which the acquisition goes on to
	// use. An error that matches [framework.ErrNoNode] reports that ours is not among them; the
	// acquisition then starts again. A decision that cannot be right fails the acquisition:
	// waiting for ours, for a name that is not among the contenders, or for one name twice.
	GetsTheLock(contenders []string, ours string, maxLeases int) (PredicateResults, error)
}

// LockNode is the znode of one acquisition.
type LockNode struct {
	Path string
	Stat framework.Stat // as of its creation

	// Token is the fencing token of its lease; 0 means the czxid of Stat.
	Token int64

	// Children are the names in the folder, listed after the creation; nil when the
	// driver has not listed them. The acquisition sorts them in place.
	Children []string
}

// PredicateResults is a driver's decision. It is Curator's PredicateResults.
type PredicateResults struct {
	// GetsTheLock says that ours has the lock.
	GetsTheLock bool

	// PathsToWatch lists the contenders, by name and each once, whose departure is a reason
	// to look again. If it is empty, every change of the folder is a reason. It is ignored
	// when ours has the lock. (Curator's has one path. That is enough for a mutex, but a
	// semaphore misses wake-ups with it; see [StandardLockInternalsDriver].)
	PathsToWatch []string
}

// StandardLockInternalsDriver is the driver of mutexes and of the first semaphore: a
// protected ephemeral sequential node, and the first maxLeases contenders in the queue have
// the lock.
//
// Every other contender watches the maxLeases contenders before it. When its turn comes,
// one of these must have left. Curator watches only the farthest of them and does not notice
// when another leaves first; a lease then stays unused while a contender waits.
type StandardLockInternalsDriver struct {
	StandardLockInternalsSorter
}

// CreatesTheLock creates the node, with containers as parents, and lists the
// folder in the same round trip.
func (StandardLockInternalsDriver) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (LockNode, error) {
	var node LockNode
	var err error
	node.Path, err = createNode(ctx, client, session, path, data, &node.Stat, framework.ListingSiblingsIn(&node.Children))
	return node, err
}

// createNode creates a protected ephemeral sequential node in the session.
func createNode(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
	stat *framework.Stat, more ...framework.CreateOption,
) (string, error) {
	opts := make([]framework.CreateOption, 0, 6)
	opts = append(append(opts, ofContenders...), framework.InSession(session), framework.StoringStatIn(stat))
	return client.Create(ctx, path, data, append(opts, more...)...)
}

// ofContenders are the options of every contender's node.
var ofContenders = []framework.CreateOption{
	framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
	framework.WithMode(framework.EphemeralSequential),
}

// QueueDriver returns the driver of a mutex whose nodes have this lock name, for a recipe that is built on [NewLockInternals],
// such as an election. It decides as [StandardLockInternalsDriver] does. A lock with it for one lease needs
// the fewest lists, because contenders enter in the order of the numbers that the server gives them; see [WithQueuePlaces].
// A driver that embeds it does not: it may have another order.
func QueueDriver(lockName string) LockInternalsDriver { return newQueueDriver(lockName) }

// queueDriver is what QueueDriver returns.
type queueDriver struct{ StandardLockInternalsDriver }

func newQueueDriver(lockName string) queueDriver {
	return queueDriver{StandardLockInternalsDriver{StandardLockInternalsSorter{lockName}}}
}

// GetsTheLock decides by the place in the queue. It never admits a contender with the last
// positive sequence number; see [ErrSequenceExhausted].
func (d StandardLockInternalsDriver) GetsTheLock(contenders []string, ours string, maxLeases int) (PredicateResults, error) {
	i := slices.Index(contenders, ours)
	sequence, _ := d.Sequence(ours)
	switch {
	case sequence == math.MaxInt32:
		return PredicateResults{}, ErrSequenceExhausted
	case i < 0:
		return PredicateResults{}, notListed(ours)
	case i < maxLeases:
		return PredicateResults{GetsTheLock: true}, nil
	default:
		// With a maximum of 0 the first contender has none to wait for: only another maximum
		// lets it in.
		return PredicateResults{PathsToWatch: contenders[max(0, i-max(1, maxLeases)):i:i]}, nil
	}
}

// notListed returns the error of a driver when ours is not among the contenders.
func notListed(ours string) error {
	return fmt.Errorf("%s is not listed: %w", ours, framework.ErrNoNode)
}

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

// LockInternalsSorter says which children of a lock's folder are contenders, and
// in which order they queue. It is Curator's LockInternalsSorter.
type LockInternalsSorter interface {
	// Contends reports whether the node with this name is a contender of this lock. Other
	// nodes in the folder are ignored.
	Contends(name string) bool

	// Compare orders two contenders: negative when a is before b. Contenders that it takes
	// for equal stand in the order of their names.
	Compare(a, b string) int
}

// isFull reports whether a newcomer behind these contenders of a queue does not get one of the leases.
func isFull(contenders []string, maxLeases int) bool { return len(contenders) >= maxLeases }
