// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.WithSharedServers(m)) }
