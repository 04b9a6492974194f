// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/checker"
)

// workloads are all that there are. A family of recipes has a list of its own,
// in a file workload_<family>.go beside its checks.
var workloads = slices.Concat(
	lockWorkloads,
	leaderWorkloads,
	txnWorkloads,
	partitionWorkloads,
	guardWorkloads,
)

// workload is what clients do with one recipe, and what is judged of it.
//
// A recipe that is no lock has no model. It records events of kinds of its own
// and brings promises with the checks that find their breaches. The last line
// of the report counts these breaches too.
type workload struct {
	name    string
	permits int

	// exclusive says that there is one holder at a time, whose token is above all
	// before. It then writes to the set.
	exclusive bool

	// policies are those under which it is played; nil is all.
	policies []framework.ErrorPolicy

	// workers is how many take turns in each client process.
	workers int

	// model says which histories of holds are legal. It is nil for a recipe that is no lock.
	model func(lockSpec) checker.Model

	// folders are those that must be empty in the end; nil is the path alone. And protects are the names of what
	// holders write to; nil is the name of the lock.
	folders, protects func(lockSpec) []string

	// promises are what this recipe promises besides the common promises. In a round, find
	// finds their breaches by what clients know among themselves, and findAtServers by what
	// the servers have, have logged or have told a client.
	promises            []promise
	find, findAtServers func(*roundReport, lockSpec) []violation

	// calls are common promises that have another name for the holds of this
	// recipe: two holders of an election are two leaders.
	calls map[promise]promise

	// done is how much was done with the recipe in a round; nil counts
	// acquisitions. A campaign of 90 seconds needs least of it under all policies
	// together.
	done  func(*roundReport, lockSpec) int
	least int

	// prepare returns what a worker does in one turn. In the last turn, which
	// must succeed, the worker also closes what prepare has started.
	prepare func(*worker) (turn func(context.Context), err error)
}
