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
	// which ones to wait for. It must not change contenders, which acquisitions share.
	// An error that matches [framework.ErrNoNode] reports that ours is not among them;
	// the acquisition then starts again. A decision that cannot be right fails the
	// acquisition: to wait for ours, for a name that is not among the contenders or for
	// one name twice, and to let ours in before a holder of this process that would not be
	// let in any more.
	GetsTheLock(contenders []string, ours string, maxLeases int) (PredicateResults, error)
}

// ShrinkingQueue is an optional interface of a driver. It promises that no newcomer can
// come to stand before a contender that is in the queue already. Contenders ahead can
// then only leave, so a waiter acquires the lock once all of them have left, without
// listing again, and GetsTheLock is asked about the contenders up to ours only. Without
// it each wake-up leads to a new list.
//
// The promise concerns order and decision of the whole driver, so it is not inherited:
// a driver that embeds [StandardLockInternalsDriver] makes it, if it does, with a Shrinks
// method of its own.
type ShrinkingQueue interface {
	// Shrinks reports whether the end of the contender with this name proves that its
	// place is free: that no other has taken it.
	Shrinks(name string) bool
}

// MarkingQueue is an optional interface of a [ShrinkingQueue] in which a contender may take
// the place of one that leaves. It reports whether acquisitions of one client mark those
// whose place was taken, as a writer that becomes a reader does: then the word of an
// unmarked one that it has left proves that its place is free, whatever Shrinks says.
type MarkingQueue interface {
	// Marks reports whether the acquisitions of one client are marked.
	Marks() bool
}

// OvertakingQueue is an optional interface of a driver whose queue is no lock by itself:
// a newcomer may be let in before a contender that was let in earlier and has not left.
// A waiting room in front of a mutex is one. Without it such a decision is an error.
type OvertakingQueue interface {
	// Overtakes reports whether the queue is of that kind.
	Overtakes() bool
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

	// PathsToWatch are otherwise names of contenders, each once, the end of any of which
	// is a reason to look again. Without any, every change of the folder is one.
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
	err := createNode(ctx, client, session, path, data, &node, framework.ListingSiblingsIn(&node.Children))
	return node, err
}

func createNode(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
	node *LockNode, more ...framework.CreateOption,
) (err error) {
	node.Path, err = client.Create(ctx, path, data, append(more,
		framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
		framework.WithMode(framework.EphemeralSequential), framework.InSession(session),
		framework.StoringStatIn(&node.Stat))...)
	return err
}

// newcomerDriver is a driver that knows where a newcomer stands. When that is behind all
// others it can leave out the list, for an acquisition that is certain to wait.
type newcomerDriver interface {
	standsLast() bool
	createsWithoutList(ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte) (LockNode, error)
}

// unlisted is the part of a driver that creates a node as StandardLockInternalsDriver
// does, without the list.
type unlisted struct{}

func (unlisted) standsLast() bool { return true }

func (unlisted) createsWithoutList(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (LockNode, error) {
	var node LockNode
	err := createNode(ctx, client, session, path, data, &node)
	return node, err
}

// queueDriver is the driver of mutexes and of the first semaphore, as it is used
// without a change: new nodes have greater numbers, and who comes first is let in first.
type queueDriver struct {
	StandardLockInternalsDriver
	unlisted
}

func newQueueDriver(lockName string) queueDriver {
	return queueDriver{StandardLockInternalsDriver: StandardLockInternalsDriver{StandardLockInternalsSorter{LockName: lockName}}}
}

// Shrinks is true: a newcomer stands behind all others.
func (queueDriver) Shrinks(string) bool { return true }

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
