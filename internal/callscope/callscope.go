// SPDX-License-Identifier: Apache-2.0

// Package callscope is what recipes and the framework tell each other in contexts. It lets a recipe see which calls have a framework.Framework.Retry around them. A
// request that several callers share must not have the policy or the session of one of them.
package callscope

import "context"

// Key is the key under which a context has the scope of its calls.
type Key struct{}

// Of returns the scope of the calls that use ctx, nil if there is none. Scopes are comparable.
func Of(ctx context.Context) any { return ctx.Value(Key{}) }

// HolderKey is the key under which a context that carries a lease has the name of the lease's znode.
type HolderKey struct{}

// Candidate is the holder of what an election creates outside of any lease, and no znode has its name. Nothing that its client
// holds waits for such a candidate.
const Candidate = "_c_ffffffff-ffff-4fff-bfff-ffffffffffff-election"

// Holder returns the name of the znode of the innermost lease that ctx carries, "" if there is none.
func Holder(ctx context.Context) string {
	name, _ := ctx.Value(HolderKey{}).(string)
	return name
}
