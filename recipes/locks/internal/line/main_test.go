// SPDX-License-Identifier: Apache-2.0

package line_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/testkit/seeds"
)

func TestMain(m *testing.M) {
	seeds.Rapid(5000)
	goleak.VerifyTestMain(m)
}
