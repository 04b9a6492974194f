// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// newPool returns the lock that a job of the tenant must hold to run in a pool of workers.
func newPool(client *framework.Framework, path, tenant string, workers int) (*locks.LockInternals, error) {
	return locks.NewLockInternals(client, newDriver(), path, tenant+separator, workers, locks.WithRecipeName("pool"))
}

// separator stands in the name of a contender between its tenant and its number.
const separator = "-job-"

// contender matches _c_, the id of a protected znode, the tenant, and the server's number.
var contender = regexp.MustCompile(`^_c_[-0-9a-f]{36}-(.+)` + separator + `-?[0-9]{9,10}$`)

// driver admits the contenders in the order of their arrival, and passes over tenants that
// work already. It creates and orders the znodes as a mutex does.
type driver struct {
	locks.StandardLockInternalsDriver
}

func newDriver() driver {
	return driver{locks.StandardLockInternalsDriver{
		StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: separator},
	}}
}

// Contends reports whether the znode belongs to a tenant.
func (driver) Contends(name string) bool { return contender.MatchString(name) }

func tenantOf(name string) string { return contender.FindStringSubmatch(name)[1] }

// GetsTheLock decides from the names alone, so that all clients decide alike. No newcomer
// changes what was decided about the contenders before it.
func (d driver) GetsTheLock(contenders []string, ours string, workers int) (locks.PredicateResults, error) {
	if _, err := d.StandardLockInternalsDriver.GetsTheLock(contenders, ours, workers); err != nil {
		return locks.PredicateResults{}, err // ours is not listed, or has the last number
	}
	ahead := contenders[:slices.Index(contenders, ours)]
	nearest := make(map[string]string) // by tenant, its last contender ahead of ours
	var working []string               // the first contender of each tenant, no more than there are workers
	for _, name := range ahead {
		tenant := tenantOf(name)
		if nearest[tenant] == "" && len(working) < workers {
			working = append(working, name)
		}
		nearest[tenant] = name
	}
	switch before := nearest[tenantOf(ours)]; {
	case before != "":
		return locks.PredicateResults{PathsToWatch: []string{before}}, nil
	case len(working) == workers:
		return locks.PredicateResults{PathsToWatch: working}, nil
	default:
		return locks.PredicateResults{GetsTheLock: true}, nil
	}
}
