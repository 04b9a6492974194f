// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"log/slog"
	"testing"

	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // clients warn of what the tests do to them
	zktest.Main(endingSASL{m})
}
