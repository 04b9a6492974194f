// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

var faults = map[string]zkserver.Fault{
	"request lost":           zkserver.LoseRequest,
	"reply lost":             zkserver.LoseReply,
	"never answered":         zkserver.NeverAnswer,
	"applied, not answered":  zkserver.ApplyNeverAnswer,
	"answered out of nature": zkserver.RespondWith([]byte{0xff, 0xff, 0xff, 0xff}),
}

// faultAt does a fault to each of the given requests of one session, counted from 1
// without pings and handshakes. It tells how many requests there were.
func faultAt(n *memnet, session int64, fault zkserver.Fault, at ...int) (requests func() int) {
	count := 0
	remove := n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID != session || r.Op == zkserver.OpPing || r.Op == zkserver.OpCreateSession {
			return zkserver.Pass
		}
		count++
		if slices.Contains(at, count) {
			return fault
		}
		return zkserver.Pass
	})
	return func() int {
		remove()
		return count
	}
}

// requestsOfACreate is how many requests the create of loseAt makes: the node, its
// parent, the parent of that, and both again.
const requestsOfACreate = 5

// TestLostReplyProtectedCreateSurvivesEveryLoss loses each of the requests that a protected
// create with parents makes, in every way: there is exactly one node, the one that
// was returned, or an error and in the end none.
//
// Curator: TestFrameworkEdges.testProtectedCreateNodeDeletion;
// TestFrameworkEdges.testMissedResponseOnESCreate, testMissedResponseOnBackgroundESCreate.
// See CURATOR-3, CURATOR-79, CURATOR-264, samuel/go-zookeeper#229 and samuel/go-zookeeper#237.
func TestLostReplyProtectedCreateSurvivesEveryLoss(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		require.Equal(t, requestsOfACreate, loseAt(t, n, zkserver.Pass, retry.None()))
	})
	for name, fault := range faults {
		for k := 1; k <= requestsOfACreate; k++ {
			t.Run(fmt.Sprintf("%s/request %d", name, k), func(t *testing.T) {
				inMemory(t, func(t *testing.T, n *memnet) { loseAt(t, n, fault, patient, k) })
				inMemory(t, func(t *testing.T, n *memnet) { loseAt(t, n, fault, retry.None(), k) })
			})
		}
		for again := requestsOfACreate + 1; again <= requestsOfACreate+3; again++ {
			t.Run(fmt.Sprintf("%s/and again while searching/request %d", name, again), func(t *testing.T) {
				inMemory(t, func(t *testing.T, n *memnet) { loseAt(t, n, fault, patient, requestsOfACreate, again) })
				inMemory(t, func(t *testing.T, n *memnet) {
					loseAt(t, n, fault, retry.OneTime(time.Millisecond), requestsOfACreate, again)
				})
			})
		}
	}
}

var patient = retry.NTimes(5, 10*time.Millisecond)

// loseAt does the fault to the given requests of a create and checks the outcome.
// It returns how many requests there were.
func loseAt(t *testing.T, n *memnet, fault zkserver.Fault, policy retry.Policy, at ...int) (made int) {
	t.Helper()
	observer := n.client(t)
	f := n.client(t, framework.WithRetryPolicy(policy))
	requests := faultAt(n, f.Session().ID(), fault, at...)
	var stat framework.Stat
	path, err := f.Create(t.Context(), "/a/b/n-", []byte("x"), framework.WithProtection(),
		framework.CreatingParentContainersIfNeeded(), framework.WithMode(framework.EphemeralSequential),
		framework.StoringStatIn(&stat))
	time.Sleep(5 * time.Second) // what goes on in the background has ended
	made = requests()
	for _, k := range at {
		require.GreaterOrEqual(t, made, k, "the fault was to hit request %d", k)
	}
	names, listErr := observer.Children(t.Context(), "/a/b")
	if listErr != nil {
		require.ErrorIs(t, listErr, framework.ErrNoNode)
	}
	if err != nil {
		require.NotEqual(t, patient, policy, "retries must overcome the losses: %v", err)
		var op *framework.OpError
		require.ErrorAs(t, err, &op)
		require.Contains(t, []string{"/a/b/n-", "/a/b", "/a"}, op.Path, "the path as the caller named it, or a parent")
		require.Equal(t, framework.OutcomeUnknown(err), errors.Is(err, framework.ErrCleanupPending), "%v", err)
		require.Empty(t, names)
		return made
	}
	require.Equal(t, []string{strings.TrimPrefix(path, "/a/b/")}, names)
	require.Equal(t, *must.Get(observer.Exists(t.Context(), path))(t), stat)
	require.Equal(t, f.Session().ID(), stat.EphemeralOwner)
	return made
}

func TestLostReplyOtherWritesAreNotRepeated(t *testing.T) {
	for _, verb := range []string{"set", "delete", "transact"} {
		inMemory(t, func(t *testing.T, n *memnet) {
			f := n.client(t)
			mustCreate(t, f, "/a")
			requests := faultAt(n, f.Session().ID(), zkserver.LoseReply, 1)
			err := verbs[verb](t.Context(), f, "/a")
			require.True(t, framework.OutcomeUnknown(err), "%s: %v", verb, err)
			require.True(t, framework.Retryable(err), "whether it is worth it is another question")
			require.Equal(t, 1, requests(), verb)
		})
	}
}

// TestLostReplyNodeOfAnEarlierSessionIsNotOurs (CURATOR-498): the reply to a create is
// lost with its session, and the server that is asked next still shows the node.
//
// Curator: TestFrameworkEdges.testProtectionWithKilledSession.
// See CURATOR-604, CURATOR-620, CURATOR-653 and CURATOR-696.
func TestLostReplyNodeOfAnEarlierSessionIsNotOurs(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t, framework.WithRetryPolicy(retry.NTimes(100, 100*time.Millisecond)))
		mustCreate(t, f, "/a")
		first := f.Session()
		var thaw func()
		killed := make(chan struct{})
		faultAt(n, first.ID(), zkserver.ApplyNeverAnswer, 1)
		remove := n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpPing || r.SessionID != first.ID() || thaw != nil {
				return zkserver.Pass
			}
			thaw = n.server.FreezeReads(0) // the node is there
			go func() {
				n.server.KillSession(first.ID())
				close(killed)
			}()
			return zkserver.NeverAnswer
		})
		var stat framework.Stat
		path, err := f.Create(t.Context(), "/a/n-", nil, framework.WithProtection(),
			framework.WithMode(framework.EphemeralSequential), framework.StoringStatIn(&stat))
		<-killed
		require.NoError(t, err)
		require.NotNil(t, thaw)
		require.NotEqual(t, first.ID(), f.Session().ID())
		require.Equal(t, f.Session().ID(), stat.EphemeralOwner)
		seen := must.Get(f.Children(t.Context(), "/a"))(t)
		require.Len(t, seen, 1, "the old node is still shown")
		require.NotEqual(t, "/a/"+seen[0], path)
		remove()
		thaw()
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{strings.TrimPrefix(path, "/a/")}, must.Get(f.Children(t.Context(), "/a"))(t))
	})
}

// TestLostReplyDeleteThatWasAppliedSaysThatItMayHaveBeen, although its last try has certainly changed
// nothing: the first one is applied and loses its reply with the connection, and there is no
// other connection.
func TestLostReplyDeleteThatWasAppliedSaysThatItMayHaveBeen(t *testing.T) {
	for name, test := range map[string]struct {
		closes bool // the client, between the two tries
		reason error
	}{
		"no connection": {reason: framework.ErrNotConnected},
		"closed":        {closes: true, reason: framework.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				observer := n.client(t)
				f := n.client(t, framework.WithRetryPolicy(retry.NTimes(1, time.Second)), framework.WithConnectionTimeout(time.Second))
				mustCreate(t, f, "/a")
				session := f.Session().ID()
				applied := false
				remove := n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.SessionID != session || r.Op != zkserver.OpDelete || applied {
						return zkserver.Pass
					}
					applied = true // the deletion in the background must get through
					n.setDown(true)
					return zkserver.LoseReply
				})
				defer remove()
				if test.closes {
					defer time.AfterFunc(time.Second/2, func() { _ = f.Close() }).Stop()
				}
				err := f.Delete(t.Context(), "/a", framework.Guaranteed())
				require.ErrorIs(t, err, test.reason)
				require.True(t, framework.OutcomeUnknown(err), "%v", err)
				require.Equal(t, !test.closes, errors.Is(err, framework.ErrCleanupPending), "%v", err)
				n.setDown(false)
				require.NoError(t, observer.BlockUntilConnected(t.Context()))
				requireNone(t, observer, "/a")
			})
		})
	}
}

// A reply that says success and cannot be read leaves a protected create in doubt:
// its node must not stay.
//
// Curator: TestFrameworkEdges.testProtectedCreateNodeDeletion.
func TestLostReplyMalformedReplyLeavesNoNode(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	mustCreate(t, f, "/a")
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpCreate2 {
			return zkserver.Pass
		}
		header := binary.BigEndian.AppendUint32(nil, 16) // length: a header and no body
		header = binary.BigEndian.AppendUint32(header, uint32(r.Xid))
		return zkserver.RespondWith(append(header, make([]byte, 12)...)) // zxid, no error
	})
	_, err := f.Create(t.Context(), "/a/b-", nil,
		framework.WithProtection(), framework.WithMode(framework.EphemeralSequential))
	require.ErrorIs(t, err, framework.ErrMalformedReply)
	require.ErrorIs(t, err, framework.ErrCleanupPending)
	require.True(t, framework.OutcomeUnknown(err))
	remove()
	zktest.Embedded(server).AwaitCounts(t, zktest.Counts{Sessions: 1}, patience)
}
