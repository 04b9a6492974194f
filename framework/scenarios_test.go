// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScenarios checks the list below: that each scenario has a test or a reason, and
// that each test that is named exists. The scenarios are what Curator's own tests put
// its client through (the name after "Curator:" is the Java test), and some that it has
// none for. A test without a package is one of this package.
//
// # State sequences under restarts, kills, partitions and expiry
//
//   - The server is away for less than the session timeout. Suspended, Reconnected,
//     never Lost, and the session goes on.
//     Curator: TestEnabledSessionExpiredState.testReconnectWithoutExpiration
//     Test: TestAShortOutageSuspendsAndResumes TestARealServerRestarts
//   - The session is killed at the server. Suspended, Lost, Reconnected; another
//     session, and nothing of the old one is left.
//     Curator: TestEnabledSessionExpiredState.testKillSession
//     Test: TestKillSession
//   - The client replaces its ZooKeeper handle, and with it the session.
//     Curator: TestEnabledSessionExpiredState.testResetCausesLost
//     None: a client here keeps one connection loop for life; there is no handle to
//     reset, and only a server or Close ends a session.
//   - Watches set before the session is given up learn that they are over, though no
//     server can say so. Here that is when the connection ends.
//     Curator: TestEnabledSessionExpiredState.testInjectedWatchedEvent
//     Test: TestTheEndOfTheConnectionEndsWatches
//   - No server can be reached. Lost comes in time to be of use, before any server
//     can expire the session. (In Curator, when a given part of the timeout has passed.)
//     Curator: TestConnectionStateManager.testSessionConnectionStateErrorPolicyWithExpirationPercent30
//     Test: TestUnreachableServersEndTheSessionAtItsDeadline TestBlackhole TestAServerThatOnlyTalks
//   - The server says "expired" and the client stays without a connection, or is told
//     so again. Lost and Reconnected once each; it does not stay Lost.
//     Curator: TestConnectionStateManager.testConnectionStateRecoversFromUnexpectedExpiredConnection
//     Test: TestExpiredMoreThanOnce framework/internal/conduit.TestAnExpiredSessionIsFollowedByANewOne
//     framework/internal/conduit.TestPinAConnectionIsForgottenAfterExpired
//   - The session expires just after the connection has been restored. Lost and
//     Reconnected follow; the client does not go on with a session that is gone.
//     Curator: TestFrameworkEdges.testValidateConnectionEventRaces
//     Test: TestALateExpiry TestASessionThatLivesOnIsAnotherSession
//   - Nothing has ever listened. Listeners are told nothing, in Curator Suspended and
//     Lost; never Connected.
//     Curator: TestNeverConnected.testNeverConnected
//     Test: TestNothingListening
//   - Waiting for a connection: one that is there, the first one, one after Lost; in
//     vain, until the context ends or the client is closed; with fifty new clients.
//     Curator: TestBlockUntilConnected, all six
//     Test: TestManyNewClients TestBlockUntilConnectedAfterLost TestNothingListening
//     TestVerbsWithAContextThatHasEnded TestVerbsBeforeStartAndAfterClose
//   - Only the client itself makes requests, in the background, which fail. The states
//     are the same, over several outages.
//     Curator: TestBackgroundStates, TestResetConnectionWithBackgroundFailure
//     Test: TestOutagesWithBackgroundTrafficOnly
//   - Servers without a quorum that go on serving reads. READ_ONLY, then RECONNECTED.
//     Curator: TestReadOnly.testReadOnly, testConnectionStateNewClient
//     Test: TestReadOnlyMode
//   - All servers of an ensemble are restarted, one after the other. The session and its
//     ephemeral node survive.
//     Curator: TestWithCluster.testSessionSurvives
//     Test: TestServersGoOneByOne
//   - All servers but one are killed. Suspended, Lost.
//     Curator: TestWithCluster.testSplitBrain
//     Test: TestServersGoOneByOne recipes/locks.TestQuorumFollowerWithoutAQuorum
//   - A network that flaps. Listeners may ask to be spared some of the changes.
//     Curator: TestCircuitBreakingConnectionStateListener, all five
//     Test: TestACircuitBreakerHoldsBackAFlappingConnection TestACircuitBreakerClosesWhenItsPolicyGivesUp
//     TestACircuitBreakerThatNeverOpens TestACircuitBreakerThatIsStopped TestACircuitBreakerOnAClient
//   - A listener is busy while many states come. It is told all of them, the last one
//     included. (Curator drops the oldest when 25 are waiting.)
//     Test: TestASlowListenerIsToldEveryState listen.TestSlowListenerDelaysNobody
//
// # Retries
//
//   - Attempts, waits and limits are what the policy says; one policy that gives up
//     when the session expires.
//     Curator: TestRetryLoop, all
//     Test: TestThePolicyOfTheUserIsAsked retry.TestFixedPolicies retry.TestExponentialBackoffRetryCount
//     retry.TestExponentialBackoffClamps retry.TestDoUntilElapsed retry.TestSessionFailedGivesUpOnExpiry
//   - A call that makes other calls has one budget.
//     Curator: TestThreadLocalRetryLoop.testRecursingRetry, testThreadedRecursingRetry
//     Test: TestRetriesAreNotNested TestCallsWithinRetryShareItsBudget TestOneCallHasOneBudget
//   - Several calls that are to be made within one session fail when it ends between
//     them, and can then be made again together.
//     Curator: TestSessionFailRetryLoop.testRetry, testBasic
//     Test: TestACallBoundToASessionEndsWithIt TestASessionThatLivesOnIsAnotherSession
//   - Calls through an outage fail with a reason, or wait and are made at once when the
//     connection is back.
//     Curator: TestFrameworkEdges.testReconnectAfterLoss, testFailure, testRetry, testBackgroundFailure,
//     connectionLossWithBackgroundTest, testBackgroundLatencyUnSleep
//     Test: TestCallsThroughAnOutage TestOutagesWithBackgroundTrafficOnly
//
// # Protection
//
//   - The reply to a protected create is lost, and the session expires before the
//     client is back. In the end there is one node, the one that was returned.
//     Curator: TestFrameworkEdges.testProtectionWithKilledSession
//     Test: TestProtectionOverALostReply TestTheNodeOfAnEarlierSessionIsNotOurs
//   - A protected create fails for want of a connection. What it may have created is
//     deleted in the background, in a namespace too.
//     Curator: TestFrameworkEdges.testProtectedCreateNodeDeletion
//     Test: TestProtectionOverALostReply TestAProtectedCreateSurvivesEveryLoss TestAMalformedReplyLeavesNoNode
//   - The reply is lost. The node that exists is returned.
//     Curator: TestFrameworkEdges.testMissedResponseOnESCreate, testMissedResponseOnBackgroundESCreate
//     Test: TestProtectionOverALostReply TestAProtectedCreateSurvivesEveryLoss TestAForeignNameThatLooksProtected
//     testing/internal/interop.TestTheSearchForProtectedNodes
//   - The path that is returned is the right one, in every mode.
//     Curator: TestFrameworkEdges.testPathsFromProtectingInBackground
//     Test: TestCreateModes TestNamespace
//   - Which names are protected ones.
//     Curator: TestCreate.testProtectedUtils
//     Test: TestIsProtectedName testing/internal/interop.TestProtectedNames
//
// # Deletes
//
//   - Several clients delete one tree, and others create in it meanwhile.
//     Curator: TestFrameworkEdges.testDeleteChildrenConcurrently
//     Test: TestDeletingTheSameChildren TestDeletingChildrenThatKeepComing TestDeletingChildrenThroughALoss
//   - A guaranteed delete that is made while there is no connection is done after the
//     reconnect, in the next session too, in a namespace too.
//     Curator: TestFailedDeleteManager.testBasic, testLostSession, testWithNamespaceAndLostSession
//     Test: TestDeletesGoOnInTheBackground TestAGuaranteedDelete
//   - A guaranteed delete of a node that does not exist says so, and is not repeated.
//     Curator: TestFailedDeleteManager.testGuaranteedDeleteOnNonExistentNodeInForeground
//     Test: TestAGuaranteedDelete
//   - A late delete hits a node of the same name that somebody else has created since.
//     None: locks guarantee the deletion of protected names alone, which nobody uses
//     again; for other names Guaranteed warns of it.
//
// # Idempotent writes
//
//   - A create, a set, a delete that is idempotent: applied already, by us or by
//     others; differently; with a fault before, at and after each request.
//     Curator: TestCreate.testIdempotentCreate, testIdempotentCreateConnectionLoss,
//     TestSetData.testIdempotentSet, testIdempotentSetConnectionLoss,
//     TestDelete.testIdempotentDelete, testIdempotentDeleteConnectionLoss
//     Test: TestIdempotentCreate TestIdempotentSetAndDelete TestIdempotentWritesSurviveEveryLoss
//     TestDoubtOutlivesALaterRefusal
//   - Create or set, also against deletes.
//     Curator: TestCreate.testOrSetData, testOrSetDataMetrics
//     Test: TestOrSetData TestOrSetDataAgainstDeletes
//
// # Parents, watches, closing
//
//   - Access control lists of parents; ancestors that the client may not read.
//     Curator: TestCreate.testCreateWithParents and the like, testForbiddenAncestors
//     Test: TestParents TestACL TestACLProvider TestForbiddenAncestors
//   - Containers are created once, and again when they have gone; namespaces.
//     Curator: TestEnsureContainers, TestFramework.testCreateParentContainers, testNamespaceInBackground
//     Test: TestCreateContainers TestContainersAndTTLsAreReaped TestNamespacesAreContainers TestNamespace
//   - Watches are accounted for, and none stays that nobody waits for.
//     Curator: TestWatcherRemovalManager, all
//     Test: TestWatchesAreShared TestACancelledReadLeavesNoWatch TestAFailedTryOfAPipelineLeavesNoWatch
//     TestAnAbsentNode TestWatchesUnderStress
//   - The client is closed while calls are under way. Each of them ends.
//     Curator: TestFramework.testBackgroundCreateWithConcurrentClose and the like
//     Test: TestCloseIsIdempotentAndCutsCallsShort TestVerbsCutShort TestAGuaranteedDelete
//
// # Locks, in situations that Curator has no test for
//
//   - The session expires between the creation of the lock's node and the list, in
//     which a lagging server still shows the old node (CURATOR-604).
//     Test: recipes/locks.TestOwnershipNodeOfTheOldSessionIsNotTakenForOurs recipes/locks.TestOwnershipNodeMustBelongToTheSession
//   - Go and Java contend for the same lock.
//     Test: testing/internal/interop.TestMutexContest testing/internal/interop.TestReadWriteContest
//     testing/internal/interop.TestSemaphoreContest testing/internal/interop.TestSemaphoreV2Contest
//   - Sequence numbers come near 2147483647, and pass it.
//     Test: recipes/locks.TestOwnershipQueueKeepsItsOrderAcrossTheWrap recipes/locks.TestOwnershipNobodyIsAdmittedWhenTheSequenceIsExhausted
//   - The context ends at any request of an acquisition or release.
//     Test: recipes/locks.TestCancelledAtEveryRequest
//   - Two multi-locks name their members in opposite order; two clients want more than
//     half of the permits each; one wants more than there are.
//     Test: recipes/locks.TestMultiLocksDoNotWaitInACircle recipes/locks.TestSemaphoreLeasesTogether recipes/locks.TestSemaphoreAllLeasesOrNone
//   - A request to revoke comes before the holder has set its watch.
//     Test: recipes/locks.TestRevocationRequestBeforeTheWatchIsNotMissed
//   - A node is deleted and created again with the same version while a cache is cut
//     off.
//     Test: recipes/cache.TestCuratorCacheEdges_testReconnectConsistency
func TestScenarios(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "scenarios_test.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var list string
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == t.Name() {
			list = f.Doc.Text()
		}
	}
	tests := testsOf(t, os.DirFS(".."))
	scenarios := regexp.MustCompile(`(?m)^ +- `).Split(list, -1)[1:]
	require.NotEmpty(t, scenarios)
	for _, scenario := range scenarios {
		named, isTested := after(scenario, "Test:")
		reason, isExcused := after(scenario, "None:")
		require.NotEqual(t, isTested, isExcused, "expected either tests or a reason:\n%s", scenario)
		require.NotEmpty(t, named+reason, scenario)
		for test := range strings.FieldsSeq(named) {
			require.True(t, tests[test] || tests["framework."+test], "no %s, which is named for:\n%s", test, scenario)
		}
	}
}

// after returns what follows a label in a scenario, up to the next heading.
func after(scenario, label string) (rest string, found bool) {
	_, rest, found = strings.Cut(scenario, "\n"+strings.Repeat(" ", 4)+label)
	rest, _, _ = strings.Cut(rest, "\n#")
	return strings.TrimSpace(rest), found
}

// testsOf returns the tests below a folder, as folder.Name.
func testsOf(t *testing.T, module fs.FS) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := fs.WalkDir(module, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(module, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[filepath.Dir(path)+"."+f.Name.Name] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	return tests
}
