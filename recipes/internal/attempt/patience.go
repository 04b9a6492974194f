// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"context"
	"time"
)

// patienceKey is the key of the value of [Patiently].
type patienceKey struct{}

// Patiently returns ctx for a call whose caller wants to know that nothing is left at the
// server: when the call fails, it takes up to limit to have its znode deleted, even after the
// end of ctx. Otherwise that end leaves the deletion to the background.
func Patiently(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, limit)
}

// Patience returns the limit of [Patiently], or 0.
func Patience(ctx context.Context) time.Duration {
	limit, _ := ctx.Value(patienceKey{}).(time.Duration)
	return limit
}
