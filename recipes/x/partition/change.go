// SPDX-License-Identifier: Apache-2.0

package partition

import "errors"

// Phase is the phase of a partition at its member.
type Phase string

// The phases of a partition, in their order.
const (
	// Waiting: the partition is this member's, which waits for the member that has it. No phase follows if
	// the wait is given up: the partition goes to another member or from the set, or the Run ends.
	Waiting Phase = "waiting"

	// Held: this member has the partition, and its function runs.
	Held Phase = "held"

	// Failed: the function has failed, and is called again after a pause. Err of the [Change] is
	// its error. The partition stays held.
	Failed Phase = "failed"

	// Ending: the context of the function has ended. Err of the [Change] is the cause.
	Ending Phase = "ending"

	// Overdue: the function has not returned within the grace that [WithGrace] sets.
	Overdue Phase = "overdue"

	// Ended: the function has returned, and the partition is released or lost.
	Ended Phase = "ended"
)

// Change is a change of a partition of one member.
type Change struct {
	Partition string
	Phase     Phase

	// Token is the token of the lease; 0 while the member waits for it.
	Token int64

	// Err is why the context of the function has ended, from Ending on, or why the function has
	// failed.
	Err error
}

var (
	// ErrMoved is the cause with which the context of a partition's function ends when the
	// partition goes to another member. The partition is released when the function has
	// returned.
	ErrMoved = errors.New("the partition moves to another member")

	// ErrRemoved is the cause with which the context of a partition's function ends when the
	// partition is no longer in the set.
	ErrRemoved = errors.New("the partition was removed from the set")

	// ErrNotRunning reports a [Member.Drain] without a [Member.Run].
	ErrNotRunning = errors.New("member does not run")

	// ErrRunning reports a [Member.Run] while another one is under way.
	ErrRunning = errors.New("member runs already")
)
