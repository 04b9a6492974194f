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

// member is the name of a multi-lock's n-th member.
func (s lockSpec) member(n int) string { return fmt.Sprintf("%s#%d", s.Name, n) }

// memberPath is the folder of that.
func (s lockSpec) memberPath(n int) string { return fmt.Sprintf("%s-%d", s.path(), n) }

// folders are where the nodes of its contenders and holders are.
func (s lockSpec) folders() []string {
	switch s.Workload {
	case "multi":
		var all []string
		for n := range members {
			all = append(all, s.memberPath(n))
		}
		return all
	case "semaphore-v2", "semaphore-mutex":
		return []string{s.path() + "/locks", s.path() + "/leases"}
	default:
		return []string{s.path()}
	}
}

// protects are the names of what the holders of an exclusive lock write to.
func (s lockSpec) protects() []string {
	if s.Workload != "multi" {
		return []string{s.Name}
	}
	var names []string
	for n := range members {
		names = append(names, s.member(n))
	}
	return names
}

// policies are all that there are.
var policies = []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.QuorumErrorPolicy, framework.SessionErrorPolicy}

// workload is what clients do with one kind of lock.
type workload struct {
	name    string
	permits int

	// exclusive says that there is one holder at a time, whose token is above all
	// before. It then writes to the register and the set.
	exclusive bool

	// workers is how many take turns in each client process.
	workers int

	model func(lockSpec) checker.Model

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
