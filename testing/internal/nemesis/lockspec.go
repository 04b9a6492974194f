package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/checker"
)

// lockSpec is one lock of a campaign: a recipe under an error policy.
type lockSpec struct {
	Name     string                `json:"name"` // unique, its folder's too
	Workload string                `json:"workload"`
	Policy   framework.ErrorPolicy `json:"policy"`
	Permits  int                   `json:"permits,omitempty"` // of a semaphore
}

// path is the folder of the lock.
func (s lockSpec) path() string { return "/nemesis/locks/" + s.Name }

// folders are where the nodes of its contenders and holders are.
func (s lockSpec) folders() []string {
	if folders := workloadOf(s).folders; folders != nil {
		return folders(s)
	}
	return []string{s.path()}
}

// protects are the names of what the holders of an exclusive lock write to.
func (s lockSpec) protects() []string {
	if protects := workloadOf(s).protects; protects != nil {
		return protects(s)
	}
	return []string{s.Name}
}

// policies are all that there are.
var policies = []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.QuorumErrorPolicy, framework.SessionErrorPolicy}

// workload is what clients do with one recipe. A new recipe brings a file workload_<name>.go and a row in
// workloads. A recipe that is no lock has no model, records events of kinds of its own, and brings promises with
// the check that finds their breaches; they are in the last line of the report then.
type workload struct {
	name    string
	permits int

	// exclusive says that there is one holder at a time, whose token is above all
	// before. It then writes to the register and the set.
	exclusive bool

	// workers is how many take turns in each client process.
	workers int

	// model says which histories of holds are legal. It is nil for a recipe that is no lock.
	model func(lockSpec) checker.Model

	// folders are those that must be empty in the end; nil is the path alone. And protects are the names of what
	// holders write to; nil is the name of the lock.
	folders, protects func(lockSpec) []string

	// promises are those of this recipe besides the common ones, and find finds their breaches in a round.
	promises []promise
	find     func(*roundReport, lockSpec) []violation

	// done is how much was done with the recipe in a round; nil counts acquisitions.
	done func(*roundReport, lockSpec) int

	// prepare returns what a worker does in one turn.
	prepare func(*worker) (turn func(context.Context), err error)
}

// specs returns a lock for each of the workloads named, under each policy.
func specs(names []string) ([]lockSpec, error) {
	var all []lockSpec
	for _, name := range names {
		i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("nemesis: workload %q, expected some of %s", name, strings.Join(workloadNames(), ","))
		}
		for _, policy := range policies {
			all = append(all, lockSpec{
				Name: fmt.Sprintf("%s-%v", name, policy), Workload: name, Policy: policy, Permits: workloads[i].permits,
			})
		}
	}
	return all, nil
}

func workloadNames() []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

// workloadOf is the workload of a lock. It panics for one that specs has not made.
func workloadOf(spec lockSpec) workload {
	return workloads[slices.IndexFunc(workloads, func(w workload) bool { return w.name == spec.Workload })]
}
