// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package zkserver_test

import "time"

var began = time.Now()

// cpuTime returns the time since the process began. Other processes may add to it.
func cpuTime() time.Duration { return time.Since(began) }
