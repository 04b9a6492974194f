// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"sync"
)

// bulkWindow is how many operations of a bulk are under way at a time, so that other requests
// of the client need not wait for all of them.
const bulkWindow = 128

// Bulk runs many operations independently and in no particular order: a failure stops no
// other operation. It blocks until all have ended. results[i] is the result of ops[i], with
// its error. The error of Bulk is nil if all have succeeded; otherwise it counts the failures
// and wraps the first of them in the order of ops. At most 128 operations are under way at a
// time.
//
// An operation takes all options of its verb, and is retried as the verb is; [OutcomeUnknown]
// reports whether a failed one may have been applied. When the context ends, operations that
// were not sent are never sent and fail with an [*InterruptedError], whose Cause is the
// context's. For all or nothing use [Framework.Transact], for reads [Framework.Pipeline].
func (f *Framework) Bulk(ctx context.Context, ops []Op) ([]OpResult, error) {
	if err := checkBulk(ctx, ops); err != nil {
		return nil, fmt.Errorf("framework: bulk: %w", err)
	}
	results := make([]OpResult, len(ops))
	window := make(chan struct{}, bulkWindow)
	var all sync.WaitGroup
	for i, op := range ops {
		window <- struct{}{} // also after the end of ctx, which ends all that are under way
		all.Go(func() {
			defer func() { <-window }()
			results[i].Path = op.path
			results[i].Err = op.alone(ctx, f, &results[i])
		})
	}
	all.Wait()
	return results, bulkError(results)
}

// checkBulk checks all operations before any is sent: a slip in the last must not leave half a bulk.
func checkBulk(ctx context.Context, ops []Op) error {
	if ctx == nil {
		return errNilContext
	}
	for i, op := range ops {
		err := op.err
		switch {
		case op.alone == nil:
			err = errZeroOp
		case err == nil:
			err = ValidatePath(op.path)
		}
		if err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return nil
}

func bulkError(results []OpResult) error {
	var first error
	failed := 0
	for i := range results {
		if err := results[i].Err; err != nil {
			failed++
			if first == nil {
				first = err
			}
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("framework: bulk: %d of %d have failed, the first: %w", failed, len(results), first)
}
