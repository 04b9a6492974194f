// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// A round may end while a vandal adds children. What it has added, and what it may have added, is
// deleted all the same: nothing else would delete these nodes.
func TestFaultVandalThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	const folder, interrupted = "/folder", 3 // the third creation is applied, and its reply never comes
	server := zktest.NewServer(t)
	admin := zktest.Client(t, server)
	must.Get(admin.Create(t.Context(), folder, nil))(t)
	proxy := zktest.NewProxy(t, server)
	repeats := framework.WithRetryPolicy(retry.BoundedExponentialBackoff(time.Millisecond, time.Second, 1000)) // the missing reply ends the connection
	c := &cluster{admin: admin, vandal: zktest.Client(t, proxy, repeats)}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	replies := 0
	remove := proxy.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
		if f.Direction != zkproxy.ToClient || f.Kind != zkproxy.Reply || f.Op != zkproxy.OpCreate2 {
			return zkproxy.Pass
		}
		if replies++; replies < interrupted {
			return zkproxy.Pass
		}
		cancel()
		return zkproxy.Drop
	})
	undo, err := addForeigners(ctx, c, folder, rand.New(rand.NewPCG(1, 2)), &faultRecord{})
	remove()
	require.ErrorIs(t, err, context.Canceled)
	names := must.Get(admin.Children(t.Context(), folder))(t)
	require.Len(t, names, interrupted)

	require.NotNil(t, undo)
	require.NoError(t, undo(t.Context()))
	names = must.Get(admin.Children(t.Context(), folder))(t)
	require.Empty(t, names)
}
