// SPDX-License-Identifier: Apache-2.0

package x_test

import (
	"testing"

	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }
