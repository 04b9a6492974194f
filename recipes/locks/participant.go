// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/heldnode"
	"github.com/gocurator/curator/recipes/locks/internal/identity"
)

// Participant is one contender of a lock, as its znode shows it. A Java
// contender's identity is whatever its client puts there, by default an IP address.
type Participant struct {
	Path     string `json:"path"`
	LockName string `json:"lockName"` // the part of the node's name before the number: "lock-", "__READ__", "__WRIT__", "lease-"
	Identity string `json:"identity"` // the node's data, until AttemptRevoke replaces it

	// Host, PID and Label describe the owner's process, as far as Identity shows them. This
	// package's default data has all of them, with the label of [WithLabel]. Curator's
	// default data is an address, shown as Host. Other data shows none.
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Label string `json:"label"`

	Position int       `json:"position"` // in the queue, from 0; both sides of a read/write lock share a queue
	Sequence int32     `json:"sequence"` // the number the server gave it
	Token    int64     `json:"token"`    // the fencing token it has or will have; but a downgraded reader's lease has its writer's token
	Session  int64     `json:"session"`  // the session that owns the node; 0 if the node is not ephemeral
	Since    time.Time `json:"since"`    // when it joined the queue, by the server's clock

	// Holds says that its place in the queue has the lock. Its owner may not know yet.
	Holds bool `json:"holds"`

	// WaitsFor has the paths of the contenders that it waits for. It is empty for a holder.
	WaitsFor []string `json:"waitsFor"`
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
	p.Host, p.PID, p.Label = identity.Parse(p.Identity)
	return p
}

// participantJSON is the form of a Participant in JSON.
type participantJSON struct {
	fields

	Session string `json:"session"`
}

// fields are those of a Participant, without its methods.
type fields Participant

// MarshalJSON writes all fields under their names in lower camel case. The session is text,
// "0x" and hexadecimal digits: ZooKeeper logs it so, and no JSON reader rounds it. since is
// in RFC 3339, in UTC. waitsFor is an array, empty for a participant that waits for none.
// Bytes of the identity that are not UTF-8 are replaced.
func (p Participant) MarshalJSON() ([]byte, error) {
	form := participantJSON{fields(p), fmt.Sprintf("0x%x", uint64(p.Session))}
	form.Since, form.WaitsFor = p.Since.UTC(), append([]string{}, p.WaitsFor...)
	return json.Marshal(form)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Participant) UnmarshalJSON(data []byte) error {
	var read participantJSON
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Errorf("locks: participant: %w", err)
	}
	session, err := strconv.ParseUint(read.Session, 0, 64)
	if err != nil {
		return fmt.Errorf("locks: participant: session %.40q, expected 0x and hexadecimal digits", read.Session)
	}
	*p = Participant(read.fields)
	p.Session = int64(session)
	if len(p.WaitsFor) == 0 {
		p.WaitsFor = nil
	}
	return nil
}

// RevocationRequested reports whether a client has asked this contender to give the lock
// back; see [AttemptRevoke]. The request has replaced the contender's Identity.
func (p Participant) RevocationRequested() bool { return p.Identity == heldnode.Request }
