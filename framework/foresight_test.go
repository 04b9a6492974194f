// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// operations records the requests of all clients, except pings, and says how the server treats
// each of them.
type operations struct {
	mu     sync.Mutex
	seen   []zkserver.OpCode
	decide func(zkserver.Request) zkserver.Fault // nil to let all pass
}

func noteOperations(t *testing.T, server *zkserver.Server) *operations {
	t.Helper()
	o := new(operations)
	t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		o.mu.Lock()
		defer o.mu.Unlock()
		if r.Op == zkserver.OpPing {
			return zkserver.Pass
		}
		o.seen = append(o.seen, r.Op)
		if o.decide == nil {
			return zkserver.Pass
		}
		return o.decide(r)
	}))
	return o
}

// take returns the operations since the last call.
func (o *operations) take() []zkserver.OpCode {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.seen
	o.seen = nil
	return seen
}

func (o *operations) faulting(decide func(zkserver.Request) zkserver.Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decide = decide
}

// contend creates a node as the locks do, and returns its path and the siblings.
func contend(t *testing.T, f *framework.Framework, folder string) (path string, siblings []string) {
	t.Helper()
	path, err := f.Create(t.Context(), folder+"/lock-", nil, framework.CreatingParentContainersIfNeeded(),
		framework.WithProtection(), framework.WithMode(framework.EphemeralSequential), framework.ListingSiblingsIn(&siblings))
	require.NoError(t, err)
	_, name := framework.SplitPath(path)
	require.Contains(t, siblings, name)
	return path, siblings
}

// expectNewFolders makes a client expect that folders below /locks are missing.
func expectNewFolders(t *testing.T, f *framework.Framework, o *operations) {
	t.Helper()
	for i := range framework.ForeseeAfter {
		contend(t, f, fmt.Sprintf("/locks/expected-%d", i))
	}
	o.take()
}

var (
	inOneWrite = []zkserver.OpCode{zkserver.OpCreateContainer, zkserver.OpCreate2}
	asUsual    = []zkserver.OpCode{zkserver.OpCreate2, zkserver.OpGetChildren2}
)

// TestForesightFolderThatIsExpectedToBeMissing is created in the same write as the first node in it,
// which needs no list.
func TestForesightFolderThatIsExpectedToBeMissing(t *testing.T) {
	for _, chroot := range []string{"", "/chroot"} {
		server := zktest.NewServer(t)
		f := zktest.Client(t, server.Addr()+chroot)
		o := noteOperations(t, server)
		expectNewFolders(t, f, o)
		for i := range 5 {
			_, siblings := contend(t, f, fmt.Sprintf("/locks/%d", i))
			require.Equal(t, inOneWrite, o.take())
			require.Len(t, siblings, 1)
		}
		contend(t, f, "/elsewhere/0")
		folders := slices.Repeat([]zkserver.OpCode{zkserver.OpCreateContainer}, 3)
		require.Equal(t, slices.Concat(asUsual, folders, asUsual), o.take(), "nothing is known about other folders")
	}
}

// TestForesightFolderThatIsThereEndsTheExpectation: it costs one request in vain, and the list.
func TestForesightFolderThatIsThereEndsTheExpectation(t *testing.T) {
	server := zktest.NewServer(t)
	f, other := zktest.Client(t, server), zktest.Client(t, server)
	o := noteOperations(t, server)
	_, first := contend(t, other, "/locks/there")
	expectNewFolders(t, f, o)
	_, siblings := contend(t, f, "/locks/there")
	require.Equal(t, append(slices.Clone(inOneWrite), zkserver.OpGetChildren2), o.take())
	require.Subset(t, siblings, first)
	for range 3 {
		contend(t, f, "/locks/there")
		require.Equal(t, asUsual, o.take())
	}
}

// A create that is not protected is no contender: its parent is missing, or not, like any other.
func TestForesightIsForContendersOnly(t *testing.T) {
	server := zktest.NewServer(t)
	client, o := zktest.Client(t, server), noteOperations(t, server)
	for i := range 2 * framework.ForeseeAfter {
		_, err := client.Create(zktest.Context(t), fmt.Sprintf("/all/new-%d/node", i), nil, framework.CreatingParentContainersIfNeeded())
		require.NoError(t, err)
	}
	o.take()
	_, err := client.Create(zktest.Context(t), "/all/another/node", nil, framework.CreatingParentContainersIfNeeded())
	require.NoError(t, err)
	require.Equal(t, []zkserver.OpCode{zkserver.OpCreate2, zkserver.OpCreateContainer, zkserver.OpCreate2}, o.take())
}

// TestForesightFewNewFoldersAreNoReasonToExpectAnother: a client that uses new folders again and
// again asks for each of them once.
func TestForesightFewNewFoldersAreNoReasonToExpectAnother(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	o := noteOperations(t, server)
	for i := range framework.ForeseeAfter - 1 {
		contend(t, f, fmt.Sprintf("/locks/%d", i))
	}
	o.take()
	for i := range framework.ForeseeAfter - 1 {
		contend(t, f, fmt.Sprintf("/locks/%d", i))
		require.Equal(t, asUsual, o.take())
	}
	for i := range 2 * framework.ForeseeAfter {
		folder := fmt.Sprintf("/locks/one-more-%d", i)
		contend(t, f, folder)
		o.take()
		contend(t, f, folder)
		require.Equal(t, asUsual, o.take(), folder)
	}
}

// TestForesightNewFolderMayHaveOthersInItAlready: another client may come between the two requests.
func TestForesightNewFolderMayHaveOthersInItAlready(t *testing.T) {
	server := zktest.NewServer(t)
	f, other := zktest.Client(t, server), zktest.Client(t, server)
	o := noteOperations(t, server)
	expectNewFolders(t, f, o)
	hold, created := make(chan struct{}), make(chan error, 1)
	o.faulting(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCreate2 && r.SessionID == f.Session().ID() {
			return zkserver.HoldUntil(hold)
		}
		return zkserver.Pass
	})
	go func() {
		defer close(hold)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := server.Await(ctx, func(e zkserver.Event) bool {
			return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpCreateContainer && e.Request.Path == "/locks/new"
		})
		if err == nil {
			_, err = other.Create(ctx, "/locks/new/lock-", nil, framework.WithMode(framework.EphemeralSequential))
		}
		created <- err
	}()
	_, siblings := contend(t, f, "/locks/new")
	require.NoError(t, <-created)
	require.Len(t, siblings, 2)
}

// TestForesightNumberThatHasComeToZeroAgain does not show that a folder is new.
func TestForesightNumberThatHasComeToZeroAgain(t *testing.T) {
	server := zktest.NewServer(t)
	f, other := zktest.Client(t, server), zktest.Client(t, server)
	o := noteOperations(t, server)
	contend(t, other, "/locks/old")
	require.NoError(t, server.SetSequence("/locks/old", 0))
	expectNewFolders(t, f, o)
	path, siblings := contend(t, f, "/locks/old")
	require.Contains(t, path, "-lock-0000000000")
	require.Len(t, siblings, 2)
}

// TestForesightExpectedFoldersUnderFaults: whatever becomes of the request for the folder, the node is
// created once.
func TestForesightExpectedFoldersUnderFaults(t *testing.T) {
	const noAuth, unimplemented, throttled = -102, -6, -127
	for name, fault := range map[string]zkserver.Fault{
		"lost":          zkserver.LoseRequest,
		"reply lost":    zkserver.LoseReply,
		"refused":       zkserver.FailWith(noAuth),
		"throttled":     zkserver.FailWith(throttled),
		"no containers": zkserver.FailWith(unimplemented),
	} {
		for _, op := range inOneWrite {
			t.Run(fmt.Sprintf("%s %v", name, op), func(t *testing.T) {
				server := zktest.NewServer(t)
				f := zktest.Client(t, server)
				o := noteOperations(t, server)
				expectNewFolders(t, f, o)
				faulted := false
				o.faulting(func(r zkserver.Request) zkserver.Fault {
					if r.Op != op || faulted {
						return zkserver.Pass
					}
					faulted = true
					return fault
				})
				var siblings []string
				path, err := f.Create(t.Context(), "/locks/new/lock-", nil, framework.CreatingParentContainersIfNeeded(),
					framework.WithProtection(), framework.WithMode(framework.EphemeralSequential), framework.ListingSiblingsIn(&siblings))
				if op == zkserver.OpCreate2 && (name == "refused" || name == "no containers") {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				children, err := f.Children(t.Context(), "/locks/new")
				require.NoError(t, err)
				_, created := framework.SplitPath(path)
				require.Equal(t, []string{created}, children)
			})
		}
	}
}

// TestForesightNeitherTheFolderNorTheNodeIsConfirmed: the node is found again, although the first reply
// that is missing is the folder's.
func TestForesightNeitherTheFolderNorTheNodeIsConfirmed(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	o := noteOperations(t, server)
	expectNewFolders(t, f, o)
	faults := map[zkserver.OpCode]zkserver.Fault{
		zkserver.OpCreateContainer: zkserver.ApplyNeverAnswer, zkserver.OpCreate2: zkserver.LoseReply,
	}
	o.faulting(func(r zkserver.Request) zkserver.Fault {
		fault := faults[r.Op] // Pass the second time
		delete(faults, r.Op)
		return fault
	})
	path, err := f.Create(t.Context(), "/locks/new/lock-", nil, framework.CreatingParentContainersIfNeeded(),
		framework.WithProtection(), framework.WithMode(framework.EphemeralSequential))
	require.NoError(t, err)
	require.Empty(t, faults)
	children, err := f.Children(t.Context(), "/locks/new")
	require.NoError(t, err)
	_, created := framework.SplitPath(path)
	require.Equal(t, []string{created}, children)
}
