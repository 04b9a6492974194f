package locks

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// participantJSON is the form of a Participant in JSON.
type participantJSON struct {
	Path     string    `json:"path"`
	LockName string    `json:"lockName"`
	Identity string    `json:"identity"`
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Label    string    `json:"label"`
	Position int       `json:"position"`
	Sequence int32     `json:"sequence"`
	Token    int64     `json:"token"`
	Session  string    `json:"session"`
	Since    time.Time `json:"since"`
	Holds    bool      `json:"holds"`
	WaitsFor []string  `json:"waitsFor"`
}

// MarshalJSON writes all fields under their names in lower camel case. The session is text,
// "0x" and hexadecimal digits: ZooKeeper logs it so, and no JSON reader rounds it. since is
// in RFC 3339, in UTC. waitsFor is an array, empty for a participant that waits for none.
// Bytes of the identity that are not UTF-8 are replaced.
func (p Participant) MarshalJSON() ([]byte, error) {
	return json.Marshal(participantJSON{
		Path: p.Path, LockName: p.LockName, Identity: p.Identity, Host: p.Host, PID: p.PID, Label: p.Label,
		Position: p.Position, Sequence: p.Sequence, Token: p.Token, Session: fmt.Sprintf("0x%x", uint64(p.Session)),
		Since: p.Since.UTC(), Holds: p.Holds, WaitsFor: append([]string{}, p.WaitsFor...),
	})
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
	if len(read.WaitsFor) == 0 {
		read.WaitsFor = nil
	}
	*p = Participant{
		Path: read.Path, LockName: read.LockName, Identity: read.Identity, Host: read.Host, PID: read.PID, Label: read.Label,
		Position: read.Position, Sequence: read.Sequence, Token: read.Token, Session: int64(session),
		Since: read.Since, Holds: read.Holds, WaitsFor: read.WaitsFor,
	}
	return nil
}
