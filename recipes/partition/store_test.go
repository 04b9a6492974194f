// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/shares"
	"github.com/gocurator/curator/testing/zktest"
)

// TestAssignOneOfTwoPlansIsAccepted: two members plan from one state.
func TestAssignOneOfTwoPlansIsAccepted(t *testing.T) {
	ctx, client, at := t.Context(), zktest.Client(t, zktest.NewServer(t)), layout("/jobs")
	for _, id := range []string{"a", "b"} {
		_, err := client.Create(ctx, at.member(id), registration{Capacity: 1}.encode(),
			framework.WithMode(framework.Ephemeral), framework.CreatingParentContainersIfNeeded())
		require.NoError(t, err)
	}
	write := func(names ...string) error {
		s, err := readState(ctx, client, at)
		require.NoError(t, err)
		_, first, changes, err := s.next(at, "a", entriesOf(names), shares.AtWill(false), config{})
		require.NoError(t, err)
		_, second, others, err := s.next(at, "b", entriesOf(append(names, "of the second")), shares.AtWill(false), config{})
		require.NoError(t, err)
		require.NoError(t, s.write(ctx, client, at, first, changes))
		return s.write(ctx, client, at, second, others)
	}
	require.True(t, isOvertaken(write("p")), "the first plan")
	require.True(t, isOvertaken(write("p", "q")), "the next one")
	s, err := readState(ctx, client, at)
	require.NoError(t, err)
	require.Equal(t, []string{"p", "q"}, s.planned())
}

// TestDriverReportsAllContendersAhead: one that waits may have the lock next, with an older plan.
func TestDriverReportsAllContendersAhead(t *testing.T) {
	var ahead [][]string
	d := newDriver(func(names []string) { ahead = append(ahead, names) })
	ours := "_c_3-lock-0000000003"
	d.ours.Store(&ours)

	result, err := d.GetsTheLock([]string{"_c_1-lock-0000000001", "_c_2-lock-0000000002", ours, "_c_4-lock-0000000004"}, ours, 1)

	require.NoError(t, err)
	require.False(t, result.GetsTheLock)
	require.Equal(t, [][]string{{"_c_1-lock-0000000001", "_c_2-lock-0000000002"}}, ahead)
}
