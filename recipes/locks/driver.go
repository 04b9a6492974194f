package locks

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gocurator/curator/framework"
)

// LockInternalsDriver is what makes one recipe differ from another: how its node
// is created, who contends in which order, and who has the lock. Recipes of one's
// own are composed from a driver and [LockInternals]. It is Curator's
// LockInternalsDriver.
//
// A driver is shared by all acquisitions of a lock and must be safe for concurrent
// use.
type LockInternalsDriver interface {
	LockInternalsSorter

	// CreatesTheLock creates the node of one acquisition. The node must be
	// ephemeral, belong to the session given, and have a name that is never used
	// again: [framework.WithProtection] and [framework.InSession] see to that. (One
	// that is not ephemeral is possible, see [LockNode].) When it fails it leaves
	// nothing behind.
	CreatesTheLock(ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte) (LockNode, error)

	// GetsTheLock decides from the sorted contenders whether ours has the lock or
	// which one to wait for. An error that matches [framework.ErrNoNode] says that
	// ours is not among them; the acquisition then starts again.
	GetsTheLock(contenders []string, ours string, maxLeases int) (PredicateResults, error)
}

// ShrinkingQueue is what a driver implements in addition if nobody can come to stand
// before a contender in the queue that is there already. Then those before it only
// ever go, and an acquisition that has seen all go for which it had to wait has the
// lock, without another list of names. Without it each wake-up leads to a new list. With
// it GetsTheLock is asked about the contenders up to ours only.
type ShrinkingQueue interface {
	// Shrinks tells whether the end of the contender with this name proves that its
	// place is free: that no other has taken it.
	Shrinks(name string) bool
}

// LockNode is the znode of one acquisition.
type LockNode struct {
	Path string
	Stat framework.Stat // as of its creation

	// Token is the fencing token of its lease; 0 means the czxid of Stat.
	Token int64

	// Children are the names in the folder, listed after the creation; nil when the
	// driver has not listed them.
	Children []string

	// Persistent says that the node is meant not to be ephemeral. Then it is not
	// checked that the node belongs to the session, and the lock outlives its
	// holder: a process that dies, or closes its client without having released,
	// keeps everybody out until somebody deletes the node by hand, its path being in
	// [LockInternals.Participants]. Such locks suit work which is worse begun
	// twice than not finished.
	//
	// The lease ends with the session nevertheless, as nobody could know otherwise that
	// the node was deleted, and a client that lives on then deletes the node, which
	// lets the next one in. [AttemptRevoke] is noticed only by a holder that lives.
	Persistent bool
}

func (n LockNode) token() int64 {
	if n.Token != 0 {
		return n.Token
	}
	return n.Stat.Czxid
}

// PredicateResults is a driver's decision. It is Curator's PredicateResults.
type PredicateResults struct {
	// GetsTheLock says that ours has the lock.
	GetsTheLock bool

	// PathsToWatch are otherwise the names of contenders, the end of any of which is
	// a reason to look again. Without any, every change of the folder is one.
	// (Curator's has one: that is enough for a mutex and loses wake-ups of a
	// semaphore, see [StandardLockInternalsDriver].)
	PathsToWatch []string
}

// StandardLockInternalsDriver is the driver of mutexes and of the first semaphore:
// a protected ephemeral sequential node, and the first maxLeases in the queue have
// the lock.
//
// Each of the others watches the maxLeases contenders before it. As many may stay
// as there are leases: so when it is its turn, one of these has gone. Curator
// watches only the farthest of them, and does not notice when others go first; a
// lease then stays unused although somebody waits.
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
	node.Path, err = client.Create(ctx, path, data,
		framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
		framework.WithMode(framework.EphemeralSequential), framework.InSession(session),
		framework.StoringStatIn(&node.Stat), framework.ListingSiblingsIn(&node.Children))
	return node, err
}

// Shrinks is true: new nodes have greater numbers.
func (StandardLockInternalsDriver) Shrinks(string) bool { return true }

// GetsTheLock decides by the place in the queue. It admits nobody with the last
// positive sequence number, see [ErrSequenceExhausted].
func (d StandardLockInternalsDriver) GetsTheLock(contenders []string, ours string, maxLeases int) (PredicateResults, error) {
	i := slices.Index(contenders, ours)
	sequence, _ := d.Sequence(ours)
	switch {
	case sequence == math.MaxInt32:
		return PredicateResults{}, ErrSequenceExhausted
	case i < 0:
		return PredicateResults{}, fmt.Errorf("%s is not listed: %w", ours, framework.ErrNoNode)
	case i < maxLeases:
		return PredicateResults{GetsTheLock: true}, nil
	default:
		// While there are no leases at all only their number matters, and the first has none to wait for.
		return PredicateResults{PathsToWatch: contenders[max(0, i-max(1, maxLeases)):i:i]}, nil
	}
}
