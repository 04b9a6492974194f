// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{}

// TestHardships makes every call of the package where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls, knownHardships) }

func TestHardshipsOfEveryCall(t *testing.T) {
	hardship.Complete(t, hardshipCalls, map[string]string{
		"EndSession": "the client that it takes the session from begins another: TestEndSessionTriesAgain",

		"NewSRVEnsembleProvider": "it asks no server: TestSRVAnswersThatFailChangeNothing",

		"Framework.Children":         "one read, as Get",
		"Framework.Config":           "one read, as Get",
		"Framework.DeleteChildren":   "a part of Delete with children",
		"Framework.Exists":           "one read, as Get",
		"Framework.FollowChildren":   "the loop of Follow",
		"Framework.GetACL":           "one read, as Get",
		"Framework.Mkdirs":           "CreateContainers with other nodes",
		"Framework.RequireZooKeeper": "a question like Ephemerals",
		"Framework.SetACL":           "one write, as Set",
		"Framework.WhoAmI":           "a question like Ephemerals",
	})
}

// hardshipCalls are the calls of the package. The rival has created the path, and below
// it one znode.
var hardshipCalls = []hardship.Call{
	verbRow("Create", 1, func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Create(ctx, path+"/new", nil)
		return err
	}),
	{Name: "Create with protection", Of: []string{"Framework.Create"}, Requests: 1, Prepare: createProtected},
	verbRow("Create with parents", 4, func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Create(ctx, path+"/a/b", nil, framework.CreatingParentsIfNeeded())
		return err
	}),
	verbRow("Create idempotent", 1, func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Create(ctx, path+"/new", []byte("x"), framework.Idempotent(), framework.OrSetData())
		return err
	}),
	verbRow("CreateContainers", 3, func(ctx context.Context, f *framework.Framework, path string) error {
		return f.CreateContainers(ctx, path+"/containers")
	}),
	verbRow("Delete", 1, func(ctx context.Context, f *framework.Framework, path string) error {
		return f.Delete(ctx, path+"/old")
	}),
	verbRow("Delete guaranteed", 1, func(ctx context.Context, f *framework.Framework, path string) error {
		return f.Delete(ctx, path+"/old", framework.Guaranteed())
	}),
	verbRow("Delete with children", 5, func(ctx context.Context, f *framework.Framework, path string) error {
		return f.Delete(ctx, path, framework.DeletingChildrenIfNeeded())
	}),
	verbRow("Get", 1, func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Get(ctx, path)
		return err
	}),
	verbRow("ChildrenData", 2, func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.ChildrenData(ctx, path, nil)
		return err
	}),
	verbRow("Ephemerals", 1, func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Ephemerals(ctx, path)
		return err
	}),
	verbRow("SetAuth", 2, func(ctx context.Context, f *framework.Framework, _ string) error {
		return f.SetAuth(ctx, "digest", []byte(credential))
	}),
	verbRow("Set", 1, func(ctx context.Context, f *framework.Framework, path string) error { return f.Set(ctx, path, nil) }),
	verbRow("Sync", 1, func(ctx context.Context, f *framework.Framework, path string) error { return f.Sync(ctx, path) }),
	verbRow("Reconfig", 1, func(ctx context.Context, f *framework.Framework, _ string) error {
		_, err := f.Reconfig(ctx, framework.Reconfiguration{Leaving: []string{"9"}})
		if errors.Is(err, framework.ServerError(-123)) {
			return nil // this server answers so
		}
		return err
	}),
	verbRow("Pipeline", 2, func(ctx context.Context, f *framework.Framework, path string) error {
		return f.Pipeline(ctx, framework.ReadData(path, nil), framework.ReadChildren(path, nil))
	}),
	verbRow("Bulk", 3, func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Bulk(ctx, []framework.Op{
			framework.CheckOp(path, framework.AnyVersion), framework.SetDataOp(path, nil), framework.CheckOp(path+"/old", framework.AnyVersion),
		})
		return err
	}),
	verbRow("Transact", 1, func(ctx context.Context, f *framework.Framework, path string) error {
		_, err := f.Transact(ctx, framework.CheckOp(path, framework.AnyVersion), framework.SetDataOp(path, nil))
		return err
	}),
	verbRow("Retry", 1, func(ctx context.Context, f *framework.Framework, path string) error {
		return f.Retry(ctx, func(ctx context.Context) error {
			_, err := f.Get(ctx, path)
			return err
		})
	}),
	verbRow("BlockUntilConnected", 0, func(ctx context.Context, f *framework.Framework, _ string) error {
		return f.BlockUntilConnected(ctx)
	}),
	{Name: "Connect", Of: []string{"Connect"}, Requests: 1, Heap: 4 << 20, Prepare: connectAnother},
	{Name: "AddWatch", Of: []string{"Framework.AddWatch"}, Requests: 2, Prepare: addWatch},
	{Name: "PersistentWatch.Flush", Of: []string{"PersistentWatch.Flush"}, Requests: 2, Prepare: flush},
	{Name: "Watch.Wait", Of: []string{"Watch.Wait"}, Requests: 1, Prepare: wait},
	{Name: "Session.Hold", Of: []string{"Session.Hold"}, Requests: 3, Prepare: hold, May: isLost},
	verbRow("Follow", 2, func(ctx context.Context, f *framework.Framework, path string) error {
		for _, err := range f.Follow(ctx, path) {
			return err
		}
		return context.Cause(ctx)
	}),
}

func isLost(err error) bool {
	var lost *framework.LostError
	return errors.As(err, &lost)
}

// verbRow is a call whose name begins with that of a method of Framework.
func verbRow(name string, requests int, call func(ctx context.Context, f *framework.Framework, path string) error) hardship.Call {
	method := name
	for i, r := range name {
		if r == ' ' {
			method = name[:i]
			break
		}
	}
	return hardship.Call{
		Name: name, Of: []string{"Framework." + method}, Requests: requests,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			makePath(s)
			return func(ctx context.Context) error { return call(ctx, s.Ours, s.Path) }
		},
	}
}

func makePath(s *hardship.Stage) {
	must.Get(s.Theirs.Create(context.Background(), s.Path+"/old", nil, framework.CreatingParentsIfNeeded()))(s.T)
}

// createProtected creates ephemeral nodes, of which none may stay.
func createProtected(s *hardship.Stage) func(context.Context) error {
	makePath(s)
	s.Rival = func() {
		require.Eventually(s.T, func() bool {
			names, err := s.Theirs.Children(context.Background(), s.Path)
			return err == nil && len(names) == 1
		}, 400*time.Millisecond, 5*time.Millisecond, s.Name)
	}
	return func(ctx context.Context) error {
		path, err := s.Ours.Create(ctx, s.Path+"/lock-", nil, framework.WithMode(framework.EphemeralSequential), framework.WithProtection())
		if err != nil {
			return err
		}
		return s.Ours.Delete(context.WithoutCancel(ctx), path, framework.InBackground())
	}
}

// connectAnother connects another client, behind the same link.
func connectAnother(s *hardship.Stage) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := framework.Connect(ctx, "memory:2181", framework.WithDialer(s.Link.Dial), framework.WithLogger(s.Ours.Logger()))
		if err != nil {
			return err
		}
		_ = client.Close() // the link may be down by now
		return nil
	}
}

func addWatch(s *hardship.Stage) func(context.Context) error {
	makePath(s)
	return func(ctx context.Context) error {
		watch, err := s.Ours.AddWatch(ctx, s.Path, framework.WatchPersistent)
		if err == nil {
			watch.Cancel()
		}
		return err
	}
}

func flush(s *hardship.Stage) func(context.Context) error {
	makePath(s)
	watch := must.Get(s.Ours.AddWatch(context.Background(), s.Path, framework.WatchPersistent))(s.T)
	s.End = func(error) { watch.Cancel() }
	return watch.Flush
}

// wait waits for an event, which comes when the rival changes the node.
func wait(s *hardship.Stage) func(context.Context) error {
	makePath(s)
	var watch *framework.Watch
	must.Get(s.Ours.Get(context.Background(), s.Path, framework.Watched(&watch)))(s.T)
	s.Later = func() { require.NoError(s.T, s.Theirs.Set(context.Background(), s.Path, []byte("changed"))) }
	s.End = func(error) { watch.Cancel() }
	return func(ctx context.Context) error {
		_, err := watch.Wait(ctx)
		return err
	}
}

// hold holds the session until the call returns.
func hold(s *hardship.Stage) func(context.Context) error {
	return func(ctx context.Context) error {
		_, release, err := s.Ours.Session().Hold(ctx, framework.QuorumErrorPolicy)
		if err == nil {
			release()
		}
		return err
	}
}
