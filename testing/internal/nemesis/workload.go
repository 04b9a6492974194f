// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"

	"github.com/gocurator/curator/testing/checker"
)

// workloads are all that there are. A family of recipes has a list of its own,
// in a file workload_<family>.go beside its checks.
var workloads = slices.Concat(
	lockWorkloads,
	leaderWorkloads,
)

// workload is what clients do with one recipe, and what is judged of it.
type workload struct {
	name    string
	permits int

	// exclusive says that there is one holder at a time, whose token is above all
	// before. It then writes to the set.
	exclusive bool

	// workers is how many take turns in each client process.
	workers int

	// model says which histories of holds are legal. It is nil for a recipe that is no lock.
	model func(lockSpec) checker.Model

	// folders are those that must be empty in the end; nil is the path alone. And protects are the names of what
	// holders write to; nil is the name of the lock.
	folders, protects func(lockSpec) []string

	// overlap is what the promise noOverlap is called for the holds of this recipe, if it has another
	// name: two holders of an election are two leaders.
	overlap promise

	// least is how many acquisitions a campaign of 90 seconds needs under all policies together.
	least int

	// prepare returns what a worker does in one turn. In the last turn, which
	// must succeed, the worker also closes what prepare has started.
	prepare func(*worker) (turn func(context.Context), err error)
}
