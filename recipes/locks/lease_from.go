package locks

import (
	"context"
	"slices"
)

// LeaseFrom returns the lease that a context was derived from with [Lease.Context]: the
// innermost if there are several, or nil if there is none. Inside [Do] it is the lease that
// Do has acquired; use it for Token, Transact, Revoked, or [Condition.Signal].
//
// The lease belongs to the caller that acquired it. Do releases its lease when fn
// returns; a release before that ends the context of fn.
func LeaseFrom(ctx context.Context) *Lease {
	if c := leaseContextIn(ctx); c != nil {
		return c.lease
	}
	return nil
}

// LeasesFrom returns all leases that a context was derived from, the outermost first.
// Inside [InterProcessMultiLock.Do] the leases of its members come last, in their order.
func LeasesFrom(ctx context.Context) []*Lease {
	var leases []*Lease
	for c := leaseContextIn(ctx); c != nil; c = leaseContextIn(c.values) {
		leases = append(leases, c.lease)
	}
	slices.Reverse(leases)
	return leases
}

func leaseContextIn(ctx context.Context) *leaseContext {
	if ctx == nil {
		return nil
	}
	c, _ := ctx.Value(leaseKey{}).(*leaseContext)
	return c
}
