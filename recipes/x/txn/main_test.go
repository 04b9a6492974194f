// SPDX-License-Identifier: Apache-2.0

package txn_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// put creates znodes, pairs of a path and its data.
func put(tb testing.TB, client *framework.Framework, pairs ...string) {
	tb.Helper()
	for i := 0; i < len(pairs); i += 2 {
		must.Get(client.Create(zktest.Context(tb), pairs[i], []byte(pairs[i+1]), framework.CreatingParentsIfNeeded()))(tb)
	}
}

// data returns the data of a znode, or "none".
func data(tb testing.TB, client *framework.Framework, path string) string {
	tb.Helper()
	got, err := client.Get(zktest.Context(tb), path)
	if errors.Is(err, framework.ErrNoNode) {
		return "none"
	}
	require.NoError(tb, err)
	return string(got)
}
