// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/gocurator/curator/framework"
)

// event is one line of the history that a client process writes: what one of its
// workers did or was told. A line is written before anything that depends on it is
// done, so that a process that is killed leaves a history that is complete.
type event struct {
	At   int64     `json:"at"` // monotonic, see there
	Kind eventKind `json:"kind"`

	Client string `json:"client"`         // the process: c3.2 is the second that was started as c3
	Hold   string `json:"hold,omitempty"` // the acquisition, unique in the campaign
	Lock   string `json:"lock,omitempty"` // name of its lockSpec

	// Of an acquisition.
	Owner   string `json:"owner,omitempty"` // the owner, which can re-enter
	Shared  bool   `json:"shared,omitempty"`
	Called  int64  `json:"called,omitempty"` // when the call was made; At is when it returned
	Token   int64  `json:"token,omitempty"`
	Node    string `json:"node,omitempty"` // path of the lease's znode
	Session int64  `json:"session,omitempty"`

	// LastValid is the last moment at which the holder looked and its lease was valid.
	LastValid int64 `json:"lastValid,omitempty"`

	// SessionOver says that the hold has ended with its session, as far as its holder knows.
	SessionOver bool `json:"sessionOver,omitempty"`

	// Value is what was written, and Outcome what became of it.
	Value   string  `json:"value,omitempty"`
	Outcome outcome `json:"outcome,omitempty"`

	// Zxid is the newest transaction of the server that has acknowledged.
	Zxid int64 `json:"zxid,omitempty"`

	// Server is the host of the server that a connection leads to, and Conn which connection it is.
	Server string `json:"server,omitempty"`
	Conn   string `json:"conn,omitempty"`

	// Unconfirmed is the error of the Close of the client: no server has confirmed the end of the session.
	Unconfirmed string `json:"unconfirmed,omitempty"`

	Error   string  `json:"error,omitempty"`
	Figures figures `json:"figures,omitzero"`
}

// eventKind is what has happened.
type eventKind string

const (
	dialed      eventKind = "dialed"      // there is a connection, on which nothing was sent yet
	hungUp      eventKind = "hungUp"      // it is over
	connected   eventKind = "connected"   // the process has its session
	called      eventKind = "called"      // an acquisition begins
	acquired    eventKind = "acquired"    // it has ended well
	failed      eventKind = "failed"      // it has ended otherwise
	lost        eventKind = "lost"        // the lease has ended by itself
	releasing   eventKind = "releasing"   // the holder calls Release
	released    eventKind = "released"    // which has returned
	appended    eventKind = "appended"    // a write to the guarded set
	expired     eventKind = "expired"     // a session has ended, or has gone unconfirmed for so long that it may have
	intercepted eventKind = "intercepted" // a request or reply has met its fate
	deleted     eventKind = "deleted"     // a server has acknowledged the deletion of a node of a lock, whether the client learns it or not
	measured    eventKind = "measured"    // what the process uses
	quiet       eventKind = "quiet"       // all workers have stopped, the session is there
	closed      eventKind = "closed"      // so has everything else; Error tells what is left
)

// outcome is what became of a write.
type outcome string

const (
	accepted outcome = "accepted"
	refused  outcome = "refused" // and certainly not applied
	unknown  outcome = "unknown" // applied or not
)

// changed is what the error of a change says of it.
func changed(err error) outcome {
	switch {
	case err == nil:
		return accepted
	case framework.OutcomeUnknown(err):
		return unknown
	default:
		return refused
	}
}

// figures are what a process uses.
type figures struct {
	Goroutines int   `json:"goroutines"`
	Files      int   `json:"files"`    // open file descriptors
	Resident   int64 `json:"resident"` // bytes

	// Cleanups is how many deletions went on in the background, at most since the measurement before.
	Cleanups int `json:"cleanups,omitempty"`
}

// history is the file that a client process writes its events to.
type history struct {
	client string

	mu   sync.Mutex
	file *os.File
	err  error // the first
}

func createHistory(path, client string) (*history, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("nemesis: history: %w", err)
	}
	return &history{client: client, file: file}, nil
}

// add writes an event. It stamps the time if the caller has not.
func (h *history) add(e event) {
	e.Client = h.client
	if e.At == 0 {
		e.At = monotonic()
	}
	line, err := json.Marshal(e)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		_, err = h.file.Write(append(line, '\n')) // the system has it then, whatever becomes of the process
	}
	if h.err == nil {
		h.err = err
	}
}

// close returns the first error of all that was written.
func (h *history) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.err, h.file.Close())
}

// readEvents reads a history. The last line may be cut short if the process was
// killed; anything else that is no event is an error.
func readEvents(path string) ([]event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("nemesis: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	var events []event
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		var e event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return nil, fmt.Errorf("nemesis: %s: line %d: %w", path, len(events)+1, err)
		}
		events = append(events, e)
	}
}
