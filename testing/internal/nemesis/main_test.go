// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(clientEnv) != "" { // a client process of a campaign
		main()
		return
	}
	goleak.VerifyTestMain(m)
}
