// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
)

// lockSpec is one lock of a campaign: a recipe under an error policy.
type lockSpec struct {
	Name     string                `json:"name"` // unique, its folder's too
	Workload string                `json:"workload"`
	Policy   framework.ErrorPolicy `json:"policy"`
	Permits  int                   `json:"permits,omitempty"` // of a semaphore
}

// locksFolder is where the folders of all locks are.
const locksFolder = "/nemesis/locks/"

// path is the folder of the lock.
func (s lockSpec) path() string { return locksFolder + s.Name }

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

// specs returns a lock for each of the workloads named, under each of its policies.
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
