// SPDX-License-Identifier: Apache-2.0

package locks

import "github.com/gocurator/curator/recipes/locks/internal/waiters"

// SignalBatch is how many waiters of a condition are told in one transaction.
const SignalBatch = waiters.Batch
