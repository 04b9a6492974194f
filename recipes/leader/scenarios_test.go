package leader_test

import (
	"testing"

	"github.com/gocurator/curator/internal/scenarios"
)

// A test of another package stands after its folder.
const (
	inInterop = "../../testing/internal/interop."
	inLocks   = "../locks."
)

// curatorTests are what Curator's own tests of its LeaderLatch and LeaderSelector do.
var curatorTests = []scenarios.Scenario{
	{Curator: "TestLeaderLatch.testBasic", Tests: []string{"TestLeadersComeInTheOrderOfTheirStart"}},
	{Curator: "TestLeaderLatch.testBasicAlt", Tests: []string{"TestNeverTwoLeaders"}},
	{Curator: "TestLeaderLatch.testRelativePath", Tests: []string{"TestBadInput"}},
	{Curator: "TestLeaderLatch.testWaiting", Tests: []string{"TestNeverTwoLeaders"}},
	{Curator: "TestLeaderLatch.testCallbackSanity", Tests: []string{"TestEachCandidateHearsOfItsTerms"}},
	{Curator: "TestLeaderLatch.testCallbackNotifyLeader", Tests: []string{"TestEachCandidateHearsOfItsTerms"}},
	{Curator: "TestLeaderLatch.testCallbackDontNotify", Tests: []string{"TestBeginningsAndEndsAlternate", "TestCloseWithOverridesTheMode"}},
	{Curator: "TestLeaderLatch.testNoServerAtStart", Tests: []string{"TestALatchJoinsOnceThereIsAServer"}},
	{Curator: "TestLeaderLatch.testProperCloseWithoutConnectionEstablished", Tests: []string{"TestCloseWithoutEverAConnection"}},
	{Curator: "TestLeaderLatch.testCorrectWatching", Tests: []string{"TestTheEndOfACandidateInTheMiddleElectsNoOther"}},
	{Curator: "TestLeaderLatch.testLostConnection", Tests: []string{"TestOutagesOfAllCandidates"}},
	{Curator: "TestLeaderLatch.testCreateDeleteRace", Tests: []string{"TestNothingIsLeftOfALatchClosedDuringItsCreation"}},
	{Curator: "TestLeaderLatch.testResetRace", Tests: []string{"TestRacingResignationsLeaveOneNode"}},
	{Curator: "TestLeaderLatch.testErrorPolicies", Tests: []string{"TestWhatEndsALeadershipInAnOutage"}},
	{Curator: "TestLeaderLatch.testSessionErrorPolicy", Tests: []string{"TestAShortOutageUnderEachPolicy"}},
	{
		Curator: "TestLeaderLatch.testLeadershipElectionWhenNodeDisappearsAfterChildrenAreRetrieved",
		Tests:   []string{"TestAPredecessorThatLeavesBeforeItIsWatched"},
	},
	{Curator: "TestLeaderLatch.testResettingOfLeadershipAfterConcurrentLeadershipChange", Tests: []string{"TestResignationsMoveTheLeadership"}},
	{Curator: "TestLeaderLatch.testSessionInterruptionDoNotCauseBrainSplit", Tests: []string{"TestALostSessionMakesAnotherTheLeader"}},
	{Curator: "TestLeaderLatch.testWatchedNodeDeletedOnReconnect", Tests: []string{"TestANodeThatIsDeletedWhileItsOwnerLooks"}},
	{Curator: "TestLeaderLatch.testGetChildrenHitsNoNode", Tests: []string{"TestTheElectionStartsAgainOnAnEmptyServer", "TestTheFolderOfAnElectionVanishes"}},
	{Curator: "TestLeaderLatch.testUncreatedPathGetLeader", Tests: []string{"TestThereNeedBeNoLeader"}},
	{Curator: "TestLeaderLatch.testWithCircuitBreaker", Tests: []string{"TestOutagesOfAllCandidates"}}, // there is no circuit breaker: the states are exact without one
	{Curator: "TestLeaderLatchCluster.testInCluster", Tests: []string{"TestTheServersOfALeaderDie"}},
	{Curator: "TestLeaderAcls.testAclErrorWithLeader", Tests: []string{"TestMissingRightsAreToldToTheWaiter"}},

	{Curator: "TestLeaderSelector.testRotatingLeadership", Tests: []string{"TestLeadershipRotates"}},
	{Curator: "TestLeaderSelector.testAutoRequeue", Tests: []string{"TestAutoRequeueLeadsUntilItIsStopped"}},
	{Curator: "TestLeaderSelector.testClosing", Tests: []string{"TestTheContextOfARunEndsIt"}},
	{Curator: "TestLeaderSelector.testInterruptLeadership", Tests: []string{"TestInterruptLeadership"}},
	{Curator: "TestLeaderSelector.testInterruptLeadershipWithRequeue", Tests: []string{"TestInterruptLeadership"}},
	{Curator: "TestLeaderSelector.testInterruption", Tests: []string{"TestInterruptLeadership"}},
	{Curator: "TestLeaderSelector.testLeaderNodeDeleteOnInterrupt", Tests: []string{"TestTheNodeOfAnInterruptedLeaderGoesOnceTheServerIsBack"}},
	{Curator: "TestLeaderSelector.testRaceAtStateChanged", Tests: []string{"TestATermNeverBeginsAfterItsLoss"}},
	{Curator: "TestLeaderSelector.testServerDying", Tests: []string{"TestWhatEndsALeadershipInAnOutage"}},
	{Curator: "TestLeaderSelector.testKillSessionThenCloseShouldElectNewLeader", Tests: []string{"TestAKilledLeaderStandsAgain"}},
	{Curator: "TestLeaderSelector.testKillServerThenCloseShouldElectNewLeader", Tests: []string{"TestACandidateTakesOverFromALeaderThatStopsWhileItIsCutOff"}},
	{Curator: "TestLeaderSelector.testErrorPolicies", Tests: []string{"TestWhatEndsALeadershipInAnOutage"}},
	{Curator: "TestLeaderSelectorCluster.testRestart", Tests: []string{"TestTheServersOfALeaderDie"}},
	{Curator: "TestLeaderSelectorCluster.testLostRestart", Tests: []string{"TestTheServersOfALeaderDie"}},
	{Curator: "TestLeaderSelectorEdges.flappingTest", Tests: []string{"TestAnElectionThatFailsAtItsCreationLeavesNoNode"}},
	{Curator: "TestLeaderSelectorEdges.createProtectedNodeInBackgroundTest", Tests: []string{"TestAnElectionThatFailsAtItsCreationLeavesNoNode"}},
	{Curator: "TestLeaderSelectorParticipants.testId", Tests: []string{"TestParticipantsOfSelectors"}},
	{Curator: "TestLeaderSelectorParticipants.testBasic", Tests: []string{"TestParticipantsOfSelectors"}},
	{Curator: "TestLeaderSelectorWithExecutor.test", Tests: []string{"TestLeadershipRotates"}}, // Run leads on the goroutine of its caller

	{What: "Go and Java in one election", Tests: []string{inInterop + "TestLatchContest", inInterop + "TestSelectorContest", inInterop + "TestLatchesOfBothSides"}},
}

// pastBugs are the ways in which elections of Curator went wrong.
var pastBugs = []scenarios.Scenario{
	{
		Curator: "CURATOR-18", What: "closed while its creation is in flight, a candidate leaves a node",
		Tests: []string{"TestNothingIsLeftOfALatchClosedDuringItsCreation"}, Defect: "leader-creation-in-doubt-left",
	},
	{
		What:  "two nodes of one candidate after racing resets",
		Tests: []string{"TestRacingResignationsLeaveOneNode"}, Defect: "leader-resign-stands-once-more",
	},
	{
		Curator: "CURATOR-110", What: "started before the server, a candidate never joins",
		Tests: []string{"TestALatchJoinsOnceThereIsAServer", "TestCloseWithoutEverAConnection"}, Defect: "leader-needs-a-server-at-its-start",
	},
	{
		Curator: "CURATOR-358", What: "the leader leaves while it is read",
		Tests: []string{"TestALeaderThatLeavesWhileItIsRead"}, Defect: "leader-that-goes-is-an-error",
	},
	{
		Curator: "CURATOR-644", What: "candidates reset forever, and none leads",
		Tests: []string{"TestAPredecessorThatLeavesBeforeItIsWatched"}, Defect: "leader-joins-again-as-its-predecessor-goes",
	},
	{
		Curator: "CURATOR-653", What: "two leaders after a reset during a change",
		Tests: []string{"TestResignationsMoveTheLeadership", "TestTheEndIsToldBeforeTheNodeGoes", "TestAResignedLeadershipEndsBeforeItsNodeGoes"}, Defect: "leader-leads-while-its-node-goes",
	},
	{
		Curator: "CURATOR-696", What: "two leaders, as the node of an old session is still listed",
		Tests: []string{"TestALostSessionMakesAnotherTheLeader", inLocks + "TestANodeOfTheOldSessionIsNotTakenForOurs", inLocks + "TestTheNodeMustBelongToTheSession"}, Defect: "leader-deaf-to-its-loss",
	},
	{
		Curator: "CURATOR-724", What: "the path of the election vanishes",
		Tests: []string{"TestTheFolderOfAnElectionVanishes", "TestTheElectionStartsAgainOnAnEmptyServer"}, Defect: "leader-stands-once",
	},
	{
		What:  "a reconnection costs the leadership, and the node",
		Tests: []string{"TestAShortOutageUnderEachPolicy"}, Defect: "leader-any-interruption-ends-it",
	},
	{
		Curator: "CURATOR-537", What: "the token is not of the node that leads",
		Tests: []string{"TestLeadersComeInTheOrderOfTheirStart", "TestLayoutOfALatch"}, Defect: "leader-term-of-the-session",
	},
	{
		Curator: "CURATOR-83", What: "no listener is told when the leader closes",
		Tests: []string{"TestBeginningsAndEndsAlternate", "TestEachCandidateHearsOfItsTerms"}, Defect: "leader-close-untold",
	},
	{
		Curator: "CURATOR-518", What: "an interruption swallows the requeue",
		Tests: []string{"TestInterruptLeadership"}, Defect: "leader-requeue-forgotten",
	},
	{
		Curator: "CURATOR-468", What: "an interrupted leader cannot release",
		Tests: []string{"TestInterruptLeadership"}, Defect: "leader-interrupted-keeps-its-node",
	},
	{
		Curator: "CURATOR-337", What: "a candidate that never led releases",
		Tests: []string{"TestTheContextOfARunEndsIt"}, Defect: "leader-of-another-released",
	},
	{
		What:  "a cancellation outlives its term",
		Tests: []string{"TestInterruptLeadership"}, Defect: "leader-interruption-outlives-its-term",
	},
	{
		What:  "a term begins although the connection was lost",
		Tests: []string{"TestATermNeverBeginsAfterItsLoss", "TestATermDoesNotBeginWithAnEndedContext"}, Defect: "leader-term-begins-after-its-end",
	},
	{
		What:  "an ended session ends the requeueing",
		Tests: []string{"TestALostSessionEndsTheTermAndNotTheRun"}, Defect: "leader-loss-ends-the-run",
	},
	{
		Curator: "CURATOR-365", What: "missing rights hang the candidate",
		Tests: []string{"TestMissingRightsAreToldToTheWaiter"}, Defect: "leader-missing-rights-untold",
	},
	{
		What:  "a refused creation or list is never tried again",
		Tests: []string{"TestACandidateTriesAgainAfterARefusal"}, Defect: "leader-refused-once-and-for-all",
	},
	{
		What:  "listeners run under the lock of the latch",
		Tests: []string{"TestAListenerMayCallTheLatch"}, Defect: "leader-listeners-under-the-lock",
	},
	{
		What:  "a beginning is told after the close",
		Tests: []string{"TestNoBeginningIsToldAfterTheClose"}, Defect: "leader-stale-beginning",
	},
}

func TestEveryScenarioIsShown(t *testing.T) { scenarios.Check(t, curatorTests, pastBugs) }
