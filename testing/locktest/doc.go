// Package locktest checks drivers of locks that are composed from
// [locks.LockInternals]. A driver decides which contender holds a lock, so a wrong one
// lets two in or keeps all out. [CheckDriver] asks a driver about many queues and has goroutines of two
// clients contend under it:
//
//	func TestMyDriver(t *testing.T) {
//		locktest.CheckDriver(t, myDriver{}, "lock-", 1)
//	}
//
// It is a package of its own, and not part of zktest, because the tests of the lower
// layers use zktest and must not depend on the recipes.
package locktest
