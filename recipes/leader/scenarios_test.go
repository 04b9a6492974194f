package leader_test

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testnames"
)

// shown is something that an election must get right, and the tests that show it.
// A test of another package stands after its folder.
type shown struct {
	what  string
	tests []string
}

const (
	inInterop = "../../testing/internal/interop."
	inLocks   = "../locks."
)

// scenarios are what Curator's own tests of its LeaderLatch and LeaderSelector do.
var scenarios = []shown{
	{"TestLeaderLatch.testBasic", []string{"TestLeadersComeInTheOrderOfTheirStart"}},
	{"TestLeaderLatch.testBasicAlt", []string{"TestNeverTwoLeaders"}},
	{"TestLeaderLatch.testRelativePath", []string{"TestBadInput"}},
	{"TestLeaderLatch.testWaiting", []string{"TestNeverTwoLeaders"}},
	{"TestLeaderLatch.testCallbackSanity", []string{"TestEachCandidateHearsOfItsTerms"}},
	{"TestLeaderLatch.testCallbackNotifyLeader", []string{"TestEachCandidateHearsOfItsTerms"}},
	{"TestLeaderLatch.testCallbackDontNotify", []string{"TestBeginningsAndEndsAlternate", "TestCloseWithOverridesTheMode"}},
	{"TestLeaderLatch.testNoServerAtStart", []string{"TestALatchJoinsOnceThereIsAServer"}},
	{"TestLeaderLatch.testProperCloseWithoutConnectionEstablished", []string{"TestCloseWithoutEverAConnection"}},
	{"TestLeaderLatch.testCorrectWatching", []string{"TestTheEndOfACandidateInTheMiddleElectsNoOther"}},
	{"TestLeaderLatch.testLostConnection", []string{"TestOutagesOfAllCandidates"}},
	{"TestLeaderLatch.testCreateDeleteRace", []string{"TestNothingIsLeftOfALatchClosedDuringItsCreation"}},
	{"TestLeaderLatch.testResetRace", []string{"TestRacingResignationsLeaveOneNode"}},
	{"TestLeaderLatch.testErrorPolicies", []string{"TestWhatEndsALeadershipInAnOutage"}},
	{"TestLeaderLatch.testSessionErrorPolicy", []string{"TestAShortOutageUnderEachPolicy"}},
	{
		"TestLeaderLatch.testLeadershipElectionWhenNodeDisappearsAfterChildrenAreRetrieved",
		[]string{"TestAPredecessorThatLeavesBeforeItIsWatched"},
	},
	{"TestLeaderLatch.testResettingOfLeadershipAfterConcurrentLeadershipChange", []string{"TestResignationsMoveTheLeadership"}},
	{"TestLeaderLatch.testSessionInterruptionDoNotCauseBrainSplit", []string{"TestALostSessionMakesAnotherTheLeader"}},
	{"TestLeaderLatch.testWatchedNodeDeletedOnReconnect", []string{"TestANodeThatIsDeletedWhileItsOwnerLooks"}},
	{"TestLeaderLatch.testGetChildrenHitsNoNode", []string{"TestTheElectionStartsAgainOnAnEmptyServer", "TestTheFolderOfAnElectionVanishes"}},
	{"TestLeaderLatch.testUncreatedPathGetLeader", []string{"TestThereNeedBeNoLeader"}},
	{"TestLeaderLatch.testWithCircuitBreaker", []string{"TestOutagesOfAllCandidates"}}, // there is no circuit breaker: the states are exact without one
	{"TestLeaderLatchCluster.testInCluster", []string{"TestTheServersOfALeaderDie"}},
	{"TestLeaderAcls.testAclErrorWithLeader", []string{"TestMissingRightsAreToldToTheWaiter"}},

	{"TestLeaderSelector.testRotatingLeadership", []string{"TestLeadershipRotates"}},
	{"TestLeaderSelector.testAutoRequeue", []string{"TestAutoRequeueLeadsUntilItIsStopped"}},
	{"TestLeaderSelector.testClosing", []string{"TestTheContextOfARunEndsIt"}},
	{"TestLeaderSelector.testInterruptLeadership", []string{"TestInterruptLeadership"}},
	{"TestLeaderSelector.testInterruptLeadershipWithRequeue", []string{"TestInterruptLeadership"}},
	{"TestLeaderSelector.testInterruption", []string{"TestInterruptLeadership"}},
	{"TestLeaderSelector.testLeaderNodeDeleteOnInterrupt", []string{"TestTheNodeOfAnInterruptedLeaderGoesOnceTheServerIsBack"}},
	{"TestLeaderSelector.testRaceAtStateChanged", []string{"TestATermNeverBeginsAfterItsLoss"}},
	{"TestLeaderSelector.testServerDying", []string{"TestWhatEndsALeadershipInAnOutage"}},
	{"TestLeaderSelector.testKillSessionThenCloseShouldElectNewLeader", []string{"TestAKilledLeaderStandsAgain"}},
	{"TestLeaderSelector.testKillServerThenCloseShouldElectNewLeader", []string{"TestWhatEndsALeadershipInAnOutage"}},
	{"TestLeaderSelector.testErrorPolicies", []string{"TestWhatEndsALeadershipInAnOutage"}},
	{"TestLeaderSelectorCluster.testRestart", []string{"TestTheServersOfALeaderDie"}},
	{"TestLeaderSelectorCluster.testLostRestart", []string{"TestTheServersOfALeaderDie"}},
	{"TestLeaderSelectorEdges.flappingTest", []string{"TestAnElectionThatFailsAtItsCreationLeavesNoNode"}},
	{"TestLeaderSelectorEdges.createProtectedNodeInBackgroundTest", []string{"TestAnElectionThatFailsAtItsCreationLeavesNoNode"}},
	{"TestLeaderSelectorParticipants.testId", []string{"TestParticipantsOfSelectors"}},
	{"TestLeaderSelectorParticipants.testBasic", []string{"TestParticipantsOfSelectors"}},
	{"TestLeaderSelectorWithExecutor.test", []string{"TestLeadershipRotates"}}, // Run leads on the goroutine of its caller

	{"Go and Java in one election", []string{inInterop + "TestLatchContest", inInterop + "TestSelectorContest", inInterop + "TestLatchesOfBothSides"}},
}

// pastBugs are the ways in which elections of Curator went wrong.
var pastBugs = []shown{
	{"CURATOR-18: closed while its creation is in flight, a candidate leaves a node", []string{"TestNothingIsLeftOfALatchClosedDuringItsCreation"}},
	{"two nodes of one candidate after racing resets", []string{"TestRacingResignationsLeaveOneNode"}},
	{"CURATOR-110: started before the server, a candidate never joins", []string{"TestALatchJoinsOnceThereIsAServer", "TestCloseWithoutEverAConnection"}},
	{"CURATOR-358: the leader leaves while it is read", []string{"TestALeaderThatLeavesWhileItIsRead"}},
	{"CURATOR-644: candidates reset forever, and none leads", []string{"TestAPredecessorThatLeavesBeforeItIsWatched"}},
	{"CURATOR-653: two leaders after a reset during a change", []string{"TestResignationsMoveTheLeadership", "TestTheEndIsToldBeforeTheNodeGoes", "TestAResignedLeadershipEndsBeforeItsNodeGoes"}},
	{
		"CURATOR-696: two leaders, as the node of an old session is still listed",
		[]string{"TestALostSessionMakesAnotherTheLeader", inLocks + "TestANodeOfTheOldSessionIsNotTakenForOurs", inLocks + "TestTheNodeMustBelongToTheSession"},
	},
	{"CURATOR-724: the path of the election vanishes", []string{"TestTheFolderOfAnElectionVanishes", "TestTheElectionStartsAgainOnAnEmptyServer"}},
	{"a reconnection costs the leadership, and the node", []string{"TestAShortOutageUnderEachPolicy"}},
	{"CURATOR-537: the token is not of the node that leads", []string{"TestLeadersComeInTheOrderOfTheirStart", "TestLayoutOfALatch"}},
	{"CURATOR-83: no listener is told when the leader closes", []string{"TestBeginningsAndEndsAlternate", "TestEachCandidateHearsOfItsTerms"}},
	{"CURATOR-518: an interruption swallows the requeue", []string{"TestInterruptLeadership"}},
	{"CURATOR-468: an interrupted leader cannot release", []string{"TestInterruptLeadership"}},
	{"CURATOR-337: a candidate that never led releases", []string{"TestTheContextOfARunEndsIt"}},
	{"a cancellation outlives its term", []string{"TestInterruptLeadership"}},
	{"a term begins although the connection was lost", []string{"TestATermNeverBeginsAfterItsLoss", "TestATermDoesNotBeginWithAnEndedContext"}},
	{"an ended session ends the requeueing", []string{"TestALostSessionEndsTheTermAndNotTheRun"}},
	{"CURATOR-365: missing rights hang the candidate", []string{"TestMissingRightsAreToldToTheWaiter"}},
	{"a refused creation or list is never tried again", []string{"TestACandidateTriesAgainAfterARefusal"}},
	{"listeners run under the lock of the latch", []string{"TestAListenerMayCallTheLatch"}},
	{"a beginning is told after the close", []string{"TestNoBeginningIsToldAfterTheClose"}},
}

// TestEveryScenarioIsShown checks that the tests which the tables name exist.
func TestEveryScenarioIsShown(t *testing.T) {
	known := make(map[string]map[string]*ast.FuncDecl) // tests by folder
	for _, s := range append(scenarios, pastBugs...) {
		require.NotEmpty(t, s.tests, s.what)
		for _, name := range s.tests {
			folder, test := ".", name
			if i := strings.LastIndex(name, "."); i >= 0 {
				folder, test = name[:i], name[i+1:]
			}
			if known[folder] == nil {
				tests, err := testnames.In(folder)
				require.NoError(t, err)
				known[folder] = tests
			}
			require.Contains(t, known[folder], test, "%s: no test %s", s.what, name)
		}
	}
}
