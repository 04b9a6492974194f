// SPDX-License-Identifier: Apache-2.0

package grpcresolver_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery/grpcresolver"
	"github.com/gocurator/curator/testing/zktest"
)

func dialWeighted(tb testing.TB, b resolver.Builder) *grpc.ClientConn {
	tb.Helper()
	conn := must.Get(grpc.NewClient("zookeeper:///orders", grpc.WithResolvers(b),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"`+grpcresolver.Weighted+`": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials())))(tb)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	return conn
}

// shares counts the answers to a thousand calls, by the id of the server.
func shares(tb testing.TB, conn *grpc.ClientConn) map[string]int {
	tb.Helper()
	got := map[string]int{}
	for range 1000 {
		id := must.Get(call(zktest.Context(tb), conn, grpc.WaitForReady(true)))(tb)
		got[id]++
	}
	return got
}

func TestWeightedSharesTheCallsByWeight(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		d := newServices(t, zktest.Client(t, server))
		conn := dialWeighted(t, newBuilder(t, d, grpcresolver.Config[payload]{Attributes: func(i *instance) grpcresolver.Attributes {
			return grpcresolver.Attributes{Weight: i.Payload.Weight}
		}}))
		all := map[string]instance{}
		for id, weight := range map[string]uint32{"light": 1, "heavy": 9, "idle": 0} {
			i := serve(t, id)
			i.Payload = &payload{Weight: weight}
			require.NoError(t, d.Register(zktest.Context(t), i))
			all[id] = i
		}
		awaitServers(t, conn, "light", "heavy")
		got := shares(t, conn)
		require.Zero(t, got["idle"])
		require.InDelta(t, 100, got["light"], 60, "%v", got) // six sigmas

		for id, weight := range map[string]uint32{"light": 9, "heavy": 1} {
			changed := all[id]
			changed.Payload = &payload{Weight: weight}
			require.NoError(t, d.Update(zktest.Context(t), changed))
		}
		for shares(t, conn)["light"] < 800 {
			require.NoError(t, zktest.Context(t).Err(), "the new weights have not come")
		}

		require.NoError(t, d.Unregister(all["light"]))
		require.NoError(t, d.Unregister(all["heavy"]))
		awaitServers(t, conn, "idle")
	})
}

func TestWeightedWithoutWeightsSharesEvenly(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	conn := dialWeighted(t, newBuilder(t, d, grpcresolver.Config[payload]{}))
	for _, id := range []string{"a", "b"} {
		require.NoError(t, d.Register(zktest.Context(t), serve(t, id)))
	}
	awaitServers(t, conn, "a", "b")
	got := shares(t, conn)
	require.InDelta(t, 500, got["a"], 100, "%v", got)
}
