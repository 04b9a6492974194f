// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Kind is what an operation does.
type Kind string

// The kinds of operations.
const (
	// Acquire is a successful acquisition, or one more by an owner that re-enters.
	Acquire Kind = "acquire"

	// Release is the end of an acquisition: by release or by loss.
	Release Kind = "release"

	// Resize sets how many permits a semaphore has.
	Resize Kind = "resize"
)

// Op is one operation on one lock, as its client saw it: it took effect at one
// moment between Call and Return, both included.
type Op struct {
	Kind Kind   `json:"kind"`
	Lock string `json:"lock"` // its path

	// Owner names the owner that acquires. An acquisition by the same owner is a
	// re-entry; a goroutine that does not re-enter is another owner each time.
	Owner string `json:"owner"`

	Shared bool  `json:"shared,omitempty"` // for reading
	N      int   `json:"n,omitempty"`      // permits, 0 is 1; of a Resize how many there are
	Token  int64 `json:"token,omitempty"`  // of an Acquire

	Call   int64 `json:"call"`   // nanoseconds of a clock that all recorders share
	Return int64 `json:"return"` // likewise, not before Call
}

// String returns the operation as a line of a report.
func (o Op) String() string {
	what := string(o.Kind)
	if o.Shared {
		what += " shared"
	}
	if o.N > 1 || o.Kind == Resize {
		what += fmt.Sprintf(" %d", o.N)
	}
	if o.Token != 0 {
		what += fmt.Sprintf(" token %d", o.Token)
	}
	return fmt.Sprintf("[%d, %d] %s %s", o.Call, o.Return, cmp.Or(o.Owner, "an unnamed owner"), what)
}

func (o Op) holder() holder { return holder{o.Owner, o.Shared} }

// permits is how many permits the operation is about.
func (o Op) permits() int { return max(o.N, 1) }

// validate returns an error for an operation that cannot have been recorded.
func (o Op) validate() error {
	switch {
	case o.Kind != Acquire && o.Kind != Release && o.Kind != Resize:
		return fmt.Errorf("checker: %v: kind %q, expected %q, %q or %q", o, o.Kind, Acquire, Release, Resize)
	case o.N < 0:
		return fmt.Errorf("checker: %v: n is %d, expected 0 or more", o, o.N)
	case o.Return < o.Call:
		return fmt.Errorf("checker: %v: it returns before it is called", o)
	}
	return nil
}

// ReadOps reads operations in JSON, one a line, until the end. A history that is cut
// in the middle of a line is an error, and so is a line that is no operation. The
// operations before it are returned too.
func ReadOps(r io.Reader) ([]Op, error) {
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	var ops []Op
	for {
		var op Op
		err := decoder.Decode(&op)
		if errors.Is(err, io.EOF) {
			return ops, nil
		}
		if err != nil {
			return ops, fmt.Errorf("checker: operation %d of a history: %w", len(ops)+1, err)
		}
		if err := op.validate(); err != nil {
			return ops, err
		}
		ops = append(ops, op)
	}
}
