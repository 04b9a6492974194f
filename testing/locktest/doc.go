// SPDX-License-Identifier: Apache-2.0

// Package locktest checks drivers of locks that are composed from [locks.LockInternals].
// A driver decides which contender holds a lock. So a wrong driver admits two contenders,
// or none. [CheckDriver] asks a driver about many queues, and has goroutines of two
// clients contend for a lock with it:
//
//	func TestMyDriver(t *testing.T) {
//		locktest.CheckDriver(t, myDriver{}, "lock-", 1)
//	}
//
// The package is not part of zktest, because the tests of the lower layers use zktest and
// must not depend on the recipes.
package locktest
