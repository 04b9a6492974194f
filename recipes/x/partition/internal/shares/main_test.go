// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/testkit/seeds"
)

func TestMain(m *testing.M) {
	seeds.Rapid(100)
	goleak.VerifyTestMain(m)
}
