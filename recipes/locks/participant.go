package locks

import (
	"time"

	"github.com/gocurator/curator/framework"
)

// Participant is one contender of a lock, as its znode shows it. A Java
// contender's identity is whatever its client puts there, by default an IP address.
type Participant struct {
	Path     string
	LockName string // the part of the node's name before the number: "lock-", "__READ__", "__WRIT__", "lease-", "wait-"
	Identity string // the node's data, until AttemptRevoke replaces it

	// Host, PID and Label describe the owner's process, as far as Identity shows them. This
	// package's default data has all of them, with the label of [WithLabel]. Curator's
	// default data is an address, shown as Host. Other data shows none.
	Host  string
	PID   int
	Label string

	Position int       // in the queue, from 0; both sides of a read/write lock share a queue
	Sequence int32     // the number the server gave it
	Token    int64     // the fencing token it has or will have; but a downgraded reader's lease has its writer's token
	Session  int64     // the session that owns the node; 0 if the node is not ephemeral
	Since    time.Time // when it joined the queue, by the server's clock

	// Holds says that its place in the queue has the lock. Its owner may not know yet.
	Holds bool

	// WaitsFor has the paths of the contenders that it waits for. It is empty for a holder.
	WaitsFor []string
}

// ParticipantOf returns what a contender's znode shows by itself, for code that has read it
// as part of something larger. Position, Holds and WaitsFor depend on the queue and are not
// set. It sends nothing.
func ParticipantOf(path, lockName string, data []byte, stat framework.Stat) Participant {
	_, name := framework.SplitPath(path)
	sequence, _ := StandardLockInternalsSorter{lockName}.Sequence(name)
	p := Participant{
		Path: path, LockName: lockName, Identity: string(data), Sequence: sequence,
		Token: stat.Czxid, Session: stat.EphemeralOwner, Since: time.UnixMilli(stat.Ctime),
	}
	p.Host, p.PID, p.Label = parseIdentity(p.Identity)
	return p
}
