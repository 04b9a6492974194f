// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// Whoever has no rights is refused whatever it tries, and the holder does not even notice. In
// a round that is not guarded the same attempts succeed.
func TestGuardVandalWithoutRights(t *testing.T) {
	t.Parallel()
	server := zktest.NewServer(t)
	holder := zktest.Client(t, server, guarded()...)
	spec := lockSpec{Name: "mutex-standard", Workload: "mutex"}
	mutex := must.Get(locks.NewInterProcessMutex(holder, spec.path()))(t)
	lease := must.Get(mutex.Acquire(t.Context()))(t)

	c := &cluster{setup: setup{guarded: true}, locks: []lockSpec{spec}, admin: holder, vandal: zktest.Client(t, server)}
	random := rand.New(rand.NewPCG(1, 2))
	for tried := map[string]bool{}; len(tried) < len(vandalisms); {
		var record faultRecord
		undo, err := vandalise(t.Context(), c, random, &record)
		require.NoError(t, err, record.Detail)
		require.Nil(t, undo)
		require.True(t, record.Guarded && record.Refused, record.Detail)
		require.Empty(t, record.Nodes, "it cannot have ended a hold")
		tried[record.Detail] = true
	}
	require.NoError(t, lease.Err())
	require.Len(t, must.Get(holder.Children(t.Context(), spec.path()))(t), 1)
	acl := must.Get(holder.GetACL(t.Context(), spec.path()))(t)
	require.Len(t, acl, 1)
	require.Equal(t, "digest", acl[0].Scheme)

	c.setup.guarded, c.vandal = false, holder
	for deleted := false; !deleted; {
		var record faultRecord
		undo, err := vandalise(t.Context(), c, random, &record)
		require.NoError(t, err, record.Detail)
		require.False(t, record.Guarded || record.Refused)
		if undo != nil {
			require.NoError(t, undo(t.Context()))
		}
		deleted = strings.Contains(record.Detail, "deleted")
	}
	_, err := holder.Get(t.Context(), lease.Path())
	require.ErrorIs(t, err, framework.ErrNoNode)
}

// A vandal that was to be refused and was not breaks the floor.
func TestGuardRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.round().Faults = []faultRecord{{Fault: "N14", Guarded: true, Refused: true}, {Fault: "N14", Guarded: true}}
	var page strings.Builder
	require.ErrorContains(t, judge(&page, p.save(t)), "vandals without rights that were refused is 1, must be at least 2")
}
