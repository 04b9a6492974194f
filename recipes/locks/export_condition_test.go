// SPDX-License-Identifier: Apache-2.0

package locks

// SignalBatch is how many waiters of a condition are told in one transaction.
const SignalBatch = signalBatch
