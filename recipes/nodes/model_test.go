// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestModel plays random programs of a node, of another client at its path, and of the network. When they have come
// to rest, the znode is there with the node's data, unless the other client has written last.
func TestModel(t *testing.T) {
	programs := 150
	if seeds.Long() {
		programs = 2000
	}
	random := seeds.New(t)
	for range programs {
		seed := random.Uint64()
		synctest.Test(t, func(t *testing.T) { playNode(t, seed) })
	}
}

func playNode(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	server := zktest.NewServer(t, zkserver.WithoutListener())
	patient := framework.WithRetryPolicy(retry.Forever(50 * time.Millisecond))
	client, proxy := zktest.ClientViaProxy(t, server, framework.WithSessionTimeout(4*time.Second), patient)
	other := zktest.Client(t, server, patient)
	proxy.Delay(time.Duration(random.IntN(300)) * time.Millisecond)
	kind := everyKind()[random.IntN(len(everyKind()))]
	opts := kind.opts
	if random.IntN(2) == 0 {
		opts = append(opts, nodes.WithEdits(func(data []byte) bool { return len(data)%2 == 0 }))
	}
	node := started(t, client, kind.mode, opts...)
	at, edited := node.ActualPath(), false // since the node has last written
	var program []string
	for range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		data := []byte("data"[random.IntN(4):])
		var err error
		step := random.IntN(8)
		switch step {
		case 0:
			err = other.Delete(ctx, at)
		case 1:
			_, err = other.Transact(ctx, framework.DeleteOp(at), framework.CreateOp(at, data))
			edited = false
		case 2:
			_, err = other.Transact(ctx, framework.DeleteOp(at), framework.CreateOp(at, data, framework.WithMode(framework.Ephemeral)))
		case 3:
			err = other.Set(ctx, at, data)
			edited = edited || err == nil
		case 4:
			err = node.SetData(ctx, data)
			edited = edited && err != nil
		case 5:
			go func() { _ = node.SetData(t.Context(), data) }() // it ends with the test
		case 6:
			proxy.Cut()
		default:
			server.KillSession(client.Session().ID())
		}
		cancel()
		program = append(program, fmt.Sprintf("%d %s: %v", step, data, err))
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
	}
	time.Sleep(time.Minute)

	if stat, err := other.Exists(t.Context(), at); err == nil && stat != nil && errors.Is(node.Err(), nodes.ErrTaken) {
		require.NoError(t, other.Delete(t.Context(), at))
		edited = false
		time.Sleep(time.Minute)
	}
	require.NoError(t, node.Err(), "seed %d: %v", seed, program)
	data, err := other.Get(t.Context(), at)
	require.NoError(t, err, "seed %d: %v", seed, program)
	if !edited {
		require.Equal(t, string(node.Data()), string(data), "seed %d: %v", seed, program)
	}
	require.NoError(t, node.Close())
	require.Empty(t, children(t, other), "seed %d: %v", seed, program)
}
