// SPDX-License-Identifier: Apache-2.0

package atomic_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

func newLong(tb testing.TB, client *framework.Framework, opts ...atomic.Option) *atomic.DistributedAtomicLong {
	tb.Helper()
	long, err := atomic.NewDistributedAtomicLong(client, "/counters/orders", opts...)
	require.NoError(tb, err)
	return long
}

func newValue(tb testing.TB, client *framework.Framework, opts ...atomic.Option) *atomic.DistributedAtomicValue {
	tb.Helper()
	value, err := atomic.NewDistributedAtomicValue(client, "/values/a", opts...)
	require.NoError(tb, err)
	return value
}
