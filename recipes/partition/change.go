package partition

// State is what a partition is to a member.
type State string

// The states of a partition, in their order.
const (
	// Waiting: the partition is this member's, which waits for the one that has it.
	Waiting State = "waiting"

	// Held: this member has the partition, and its function runs.
	Held State = "held"

	// Ending: the context of the function has ended. Err of the [Change] is the cause.
	Ending State = "ending"

	// Overdue: the function has not returned within the grace that [WithGrace] sets.
	Overdue State = "overdue"

	// Ended: the function has returned, and the partition is released or lost.
	Ended State = "ended"
)

// Change is a change of a partition of one member.
type Change struct {
	Partition string
	State     State

	// Token is the token of the lease; 0 while the member waits for it.
	Token int64

	// Err is why the context of the function has ended, from Ending on.
	Err error
}
