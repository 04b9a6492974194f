// SPDX-License-Identifier: Apache-2.0

package zktest

import "go.uber.org/goleak"

// Main runs the tests of a package, as its TestMain. Then it closes the servers that the tests
// have shared, prints the goroutines that they have left, and ends the process. The status is 0
// if all tests have passed and no goroutine is left. [WithSharedServers] is for a TestMain that
// looks for goroutines in another way, or in none.
func Main(m TestRunner) { goleak.VerifyTestMain(WithSharedServers(m)) }
