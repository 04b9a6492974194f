// SPDX-License-Identifier: Apache-2.0

package atomic_test

import (
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

func newLong(tb testing.TB, client *framework.Framework, opts ...atomic.Option) *atomic.DistributedAtomicLong {
	tb.Helper()
	long := must.Get(atomic.NewDistributedAtomicLong(client, "/counters/orders", opts...))(tb)
	return long
}

func newValue(tb testing.TB, client *framework.Framework, opts ...atomic.Option) *atomic.DistributedAtomicValue {
	tb.Helper()
	value := must.Get(atomic.NewDistributedAtomicValue(client, "/values/a", opts...))(tb)
	return value
}
