// SPDX-License-Identifier: Apache-2.0

package typed_test

import (
	"context"
	"testing"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/typed"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{
	"many participants of one client, and one reset: Update": "of n updates of one znode at once, each round of requests lets one through",
}

// TestHardships makes every call of the package where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, typedCalls, knownHardships) }

// TestHardshipsAtEveryRequest makes every call of the package with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, typedCalls) }

func TestHardshipsOfEveryCall(t *testing.T) {
	hardship.Complete(t, typedCalls, map[string]string{"Node.Follow": "it is Framework.Follow, which has rows, and a codec"})
}

var typedCalls = []hardship.Call{
	nodeRow("Get", 1, nil, func(ctx context.Context, n *typed.Node[service]) error {
		_, _, err := n.Get(ctx)
		return err
	}),
	nodeRow("Set", 1, framework.OutcomeUnknown, func(ctx context.Context, n *typed.Node[service]) error {
		return n.Set(ctx, service{Address: "b:80"})
	}),
	nodeRow("Update", 2, framework.OutcomeUnknown, func(ctx context.Context, n *typed.Node[service]) error {
		return n.Update(ctx, func(s *service) error { s.Hits++; return nil })
	}),
	nodeRow("Delete", 1, framework.OutcomeUnknown, func(ctx context.Context, n *typed.Node[service]) error {
		return n.Delete(ctx)
	}),
	{
		Name: "Create", Of: []string{"Node.Create"}, Requests: 1, May: framework.OutcomeUnknown,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			node := must.Get(typed.NewNode(s.Ours, s.Path, typed.JSON[service]()))(s.T)
			return func(ctx context.Context) error {
				_, err := node.Create(ctx, service{Address: "a:80"})
				return err
			}
		},
	},
	nodeRow("Put", 2, framework.OutcomeUnknown, func(ctx context.Context, n *typed.Node[service]) error {
		return n.Put(ctx, service{Address: "b:80"})
	}),
	{
		Name: "Values", Of: []string{"Folder.Values"}, Requests: 2,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			must.Get(s.Theirs.Create(context.Background(), s.Path+"/a", []byte("{}"), framework.CreatingParentsIfNeeded()))(s.T)
			folder := must.Get(typed.NewFolder(s.Ours, s.Path+"/{id}", typed.JSON[service]()))(s.T)
			return func(ctx context.Context) error {
				_, err := folder.Values(ctx)
				return err
			}
		},
	},
	{
		Name: "Children", Of: []string{"Folder.Children"}, Requests: 1,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			prepareNode(s)
			folder := must.Get(typed.NewFolder(s.Ours, s.Path+"/{id}", typed.JSON[service]()))(s.T)
			return func(ctx context.Context) error {
				_, err := folder.Children(ctx)
				return err
			}
		},
	},
}

// nodeRow is a call on a znode that is there.
func nodeRow(method string, requests int, may func(error) bool, call func(context.Context, *typed.Node[service]) error) hardship.Call {
	return hardship.Call{
		Name: method, Of: []string{"Node." + method}, Requests: requests, May: may,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			node := prepareNode(s)
			return func(ctx context.Context) error { return call(ctx, node) }
		},
	}
}

func prepareNode(s *hardship.Stage) *typed.Node[service] {
	must.Get(s.Theirs.Create(context.Background(), s.Path, []byte("{}")))(s.T)
	node := must.Get(typed.NewNode(s.Ours, s.Path, typed.JSON[service]()))(s.T)
	return node
}
