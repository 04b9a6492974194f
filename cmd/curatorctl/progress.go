// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
)

// progress counts what a long verb has done.
type progress struct {
	verb  string // in the past tense
	total int
	done  atomic.Int64
}

// finish gives the error of a verb that has ended early what had been done by then, and the signal's status.
func (p *progress) finish(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %d of %d znodes: %w", p.verb, p.done.Load(), p.total, cmp.Or(context.Cause(ctx), err))
}
