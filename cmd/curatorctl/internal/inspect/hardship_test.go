// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{}

// TestHardships looks at locks where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls, knownHardships) }

// TestHardshipsAtEveryRequest looks with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls) }

func TestHardshipsOfEveryCall(t *testing.T) {
	hardship.Complete(t, hardshipCalls, map[string]string{
		"FourLetterWord": "it is no request, and Explain asks so", "Sessions": "as FourLetterWord",
	})
}

var hardshipCalls = []hardship.Call{
	lookRow("At", 3, func(ctx context.Context, client *framework.Framework, path string) error {
		_, err := inspect.At(ctx, client, path)
		return err
	}),
	lookRow("Walk", 3, func(ctx context.Context, client *framework.Framework, path string) error {
		_, err := inspect.Walk(ctx, client, path)
		return err
	}),
	lookRow("Tree", 6, func(ctx context.Context, client *framework.Framework, path string) error {
		_, err := inspect.Tree(ctx, client, path)
		return err
	}),
	lookRow("Deadlocks", 3, func(ctx context.Context, client *framework.Framework, path string) error {
		_, err := inspect.Deadlocks(ctx, client, path)
		return err
	}),
	lookRow("Explain", 3, func(ctx context.Context, client *framework.Framework, path string) error {
		_, err := inspect.Explain(ctx, client, path)
		return err
	}),
	lookRow("Follow", 5, func(ctx context.Context, client *framework.Framework, path string) error {
		traffic, err := inspect.Follow(ctx, client, path)
		if err == nil {
			traffic.Take()
			traffic.Close()
		}
		return err
	}),
}

// lookRow looks at a lock with a holder and a waiter.
func lookRow(name string, requests int, look func(ctx context.Context, client *framework.Framework, path string) error) hardship.Call {
	return hardship.Call{
		Name: name, Of: []string{name}, Requests: requests, Spares: map[string]int{"Follow": 1}[name], // its watch may be gone already
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			var nodes []string
			for range 2 {
				node := must.Get(s.Theirs.Create(context.Background(), s.Path+"/lock-", []byte("host/7 owner"), framework.CreatingParentsIfNeeded(),
					framework.WithMode(framework.EphemeralSequential), framework.WithProtection()))(s.T)
				nodes = append(nodes, node)
			}
			s.End = func(error) {
				for _, node := range nodes {
					require.NoError(s.T, s.Theirs.Delete(context.Background(), node))
				}
				nodes = nil
			}
			s.Rival = func() { s.End(nil) }
			return func(ctx context.Context) error { return look(ctx, s.Ours, s.Path) }
		},
	}
}
