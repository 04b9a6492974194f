// SPDX-License-Identifier: Apache-2.0

package txn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/txn"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestKeeperRefusesWhatItCannotCheck: setData of children raises the cversion of their parent there, so it does not show how many
// were created. A transaction that counts them would commit on a stale view, and writes nothing instead.
func TestKeeperRefusesWhatItCannotCheck(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t, zkserver.WithKeeper()))
	for _, path := range []string{"/a", "/a/from", "/a/to"} {
		must.Get(client.Create(t.Context(), path, []byte("1")))(t)
	}
	move := func(tx *txn.Tx) error {
		data, err := tx.Get("/a/from")
		if err != nil {
			return err
		}
		return tx.Set("/a/to", append(data, '2'))
	}
	count := func(tx *txn.Tx) error {
		names, err := tx.Children("/a")
		if err != nil {
			return err
		}
		return tx.Set("/a/to", []byte{byte(len(names))})
	}
	create := func(tx *txn.Tx) error {
		missing, err := tx.Exists("/a/none")
		if err != nil || missing {
			return err
		}
		return tx.Create("/a/new", nil)
	}
	read := func(tx *txn.Tx) error { return tx.Prefetch("/a/from", "/a/to", "/a/none") }
	for _, refused := range []error{
		txn.Do(t.Context(), client, move),
		txn.Do(t.Context(), client, count),
		txn.Do(t.Context(), client, count, txn.VersionsOnly()),
	} {
		require.ErrorIs(t, refused, framework.ErrUnsupported)
		require.ErrorContains(t, refused, "ClickHouse Keeper v26.2")
		require.ErrorContains(t, refused, "expected VersionsOnly")
	}
	data := must.Get(client.Get(t.Context(), "/a/to"))(t)
	require.Equal(t, "1", string(data))

	require.NoError(t, txn.Do(t.Context(), client, move, txn.VersionsOnly()))
	require.NoError(t, txn.Do(t.Context(), client, create))
	require.NoError(t, txn.Do(t.Context(), client, read))
	data = must.Get(client.Get(t.Context(), "/a/to"))(t)
	require.Equal(t, "12", string(data))
}
