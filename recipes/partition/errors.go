// SPDX-License-Identifier: Apache-2.0

package partition

import "errors"

var (
	// ErrMoved is the cause with which the context of a partition's function ends when the
	// partition goes to another member. The partition is released when the function has
	// returned.
	ErrMoved = errors.New("the partition moves to another member")

	// ErrRemoved is the cause with which the context of a partition's function ends when the
	// partition is no longer in the set.
	ErrRemoved = errors.New("the partition was removed from the set")

	// ErrRunning reports a [Member.Run] while another one is under way.
	ErrRunning = errors.New("member runs already")
)
