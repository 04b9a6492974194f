// Package recipes_test maps what Curator's tests show, and what has gone wrong in
// Curator, to tests of the recipes.
package recipes_test

import (
	"go/ast"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/scenarios"
)

// curatorTests are Curator's own tests, by class and method. At least one of the tests that
// show each runs on the embedded server and on real ZooKeeper.
var curatorTests = []scenarios.Scenario{
	{Curator: "TestDistributedAtomicLong.testBasic", Tests: []string{"atomic.TestArithmetic"}},
	{Curator: "TestDistributedAtomicLong.testForceSet", Tests: []string{"atomic.TestAForcedSetReplacesTheValue"}},
	{Curator: "TestDistributedAtomicLong.testCompareAndSet", Tests: []string{"atomic.TestCompareAndSetAndInitialize"}},
	{Curator: "TestDistributedAtomicLong.testCompareAndSetWithFreshInstance", Tests: []string{"atomic.TestCompareAndSetAndInitialize"}},
	{Curator: "TestDistributedAtomicLong.testCorruptedValue", Tests: []string{"atomic.TestOddBytes"}},
	{Curator: "TestDistributedAtomicLong.testSimulation", Tests: []string{"atomic.TestAdditionsOfManyClients"}},
	{Curator: "TestCachedAtomicCounter.testBasic", Tests: []string{"atomic.TestCachedCountersHandOutBlocks"}},
	{Curator: "TestCachedAtomicCounter.testWithError", Tests: []string{"atomic.TestTheNextBlockFails"}},

	{Curator: "TestSharedCount.testMultiClients", Tests: []string{"shared.TestListenersHearNumbersInOrder"}},
	{Curator: "TestSharedCount.testSimpleVersioned", Tests: []string{"shared.TestATrySucceedsOnlyOnTheNewestValue"}},
	{Curator: "TestSharedCount.testMultiClientVersioned", Tests: []string{"shared.TestATrySucceedsOnlyOnTheNewestValue"}},
	{Curator: "TestSharedCount.testMultiClientDifferentSeed", Tests: []string{"shared.TestTheFirstSeedWins"}},
	{Curator: "TestSharedCount.testDisconnectEventOnWatcherDoesNotRetry", Tests: []string{"shared.TestAReconnectTellsNothingThatIsNotNew", "shared.TestACopyOutlivesAReadThatFails"}},
	{Curator: "TestSharedCount.testDisconnectReconnectEventDoesNotFireValueWatcher", Tests: []string{"shared.TestAReconnectTellsNothingThatIsNotNew"}},
	{Curator: "TestSharedCount.testDisconnectReconnectWithMultipleClients", Tests: []string{"shared.TestChangesDuringAnOutageAreSeen"}},

	{Curator: "TestDistributedBarrier.testBasic", Tests: []string{"barriers.TestRemovingABarrierLetsAllGoOn"}},
	{Curator: "TestDistributedBarrier.testMultiClient", Tests: []string{"barriers.TestRemovingABarrierLetsAllGoOn"}},
	{Curator: "TestDistributedBarrier.testNoBarrier", Tests: []string{"barriers.TestRemovingABarrierLetsAllGoOn"}},
	{Curator: "TestDistributedBarrier.testServerCrash", Tests: []string{"barriers.TestAWaitFailsWithoutAServer"}},
	{Curator: "TestDistributedDoubleBarrier.testBasic", Tests: []string{"barriers.TestMembersBeginAndEndTogether"}},
	{Curator: "TestDistributedDoubleBarrier.testMultiClient", Tests: []string{"barriers.TestMembersBeginAndEndTogether"}},
	{Curator: "TestDistributedDoubleBarrier.testOverSubscribed", Tests: []string{"barriers.TestMoreMembersThanNeeded"}},
	{Curator: "TestDistributedDoubleBarrier.testSpuriousWakeup", Tests: []string{"barriers.TestAWakeUpAloneOpensNothing"}},

	{Curator: "TestDistributedQueue.testSafetyWithCrash", Tests: []string{"queues.TestTheItemOfAConsumerThatDiesIsConsumedByAnother"}},
	{Curator: "TestDistributedQueue.testNoDuplicateProcessing", Tests: []string{"queues.TestNoItemIsConsumedTwice"}},
	{Curator: "TestDistributedQueue.testRetryAfterFailure_Curator56", Tests: []string{"queues.TestNamesDoNotGrowWithEachFailure"}},
	{Curator: "TestDistributedQueue.testErrorMode", Tests: []string{"queues.TestAFailedItemIsPutBackOrDeleted"}},
	{Curator: "TestDistributedQueue.testPutMulti", Tests: []string{"queues.TestItemsOfOneZnode"}},
	{Curator: "TestDistributedQueue.testFlush", Tests: []string{"queues.TestNoItemIsConsumedTwice", "queues.TestPutsInTheBackgroundArriveInOrder"}},
	{Curator: "TestLongNetworkPartition.testLongNetworkPartition", Tests: []string{"queues.TestConsumersSurviveTheirSessions", "queues.TestConsumersSurviveALongPartition"}},
	{Curator: "TestDistributedDelayQueue.testSorting", Tests: []string{"queues.TestDelayedItemsComeInTheOrderOfTheirTimes"}},
	{Curator: "TestDistributedDelayQueue.testLateAddition", Tests: []string{"queues.TestALaterItemThatIsDueEarlierComesFirst"}},
	{Curator: "TestDistributedPriorityQueue.testSimple", Tests: []string{"queues.TestLowerPrioritiesComeFirst"}},
	{Curator: "TestDistributedPriorityQueue.testSortingWhileTaking", Tests: []string{"queues.TestALaterItemOfLowerPriorityComesFirst"}},
	{Curator: "TestDistributedIdQueue.testDeletingWithLock", Tests: []string{"queues.TestAnItemThatIsConsumedIsNotRemoved"}},
	{Curator: "TestDistributedIdQueue.testRequeuingWithLock", Tests: []string{"queues.TestAnItemThatIsConsumedIsNotRemoved"}},
	{Curator: "TestSimpleDistributedQueue.testHangFromContainerLoss", Tests: []string{"queues.TestATakeSurvivesThatItsFolderIsDeleted"}},
}

// pastBugs are the ways in which these recipes of Curator went wrong, or still do.
var pastBugs = []scenarios.Scenario{
	{
		Curator: "CURATOR-56", What: "a failed item gets a longer name each time, and loses its priority or its delay",
		Tests: []string{"queues.TestNamesDoNotGrowWithEachFailure", "queues.TestAFailedItemKeepsItsPriority", "queues.TestAFailedItemKeepsItsTime"}, Defect: "queues-requeue-loses-priority",
	},
	{
		Curator: "CURATOR-308", What: "a queue hangs when its container is deleted",
		Tests: []string{"queues.TestATakeSurvivesThatItsFolderIsDeleted", "queues.TestConsumersSurviveThatTheirFolderIsDeleted"}, Defect: "queues-a-folder-that-is-gone-is-an-error",
	},
	{
		Curator: "CURATOR-623", What: "consumers stop after a long partition",
		Tests: []string{"queues.TestConsumersSurviveALongPartition"}, Defect: "queues-consumer-ends-with-a-request",
	},
	{
		Curator: "CURATOR-311", What: "a value is stale after a reconnection",
		Tests: []string{"shared.TestChangesDuringAnOutageAreSeen"}, Defect: "shared-deaf-after-its-session",
	},
	{
		Curator: "CURATOR-329", What: "a value is not read when it is started",
		Tests: []string{"shared.TestTheFirstSeedWins"}, Defect: "shared-seed-for-the-value",
	},
	{
		Curator: "CURATOR-344", What: "a watcher blocks in a retry loop",
		Tests: []string{"shared.TestACopyOutlivesAReadThatFails", "shared.TestAReconnectTellsNothingThatIsNotNew"}, Defect: "shared-stops-at-a-failure",
	},
	{
		Curator: "CURATOR-688", What: "a value freezes when its version overflows",
		Tests: []string{"shared.TestAnOlderValueNeverReplacesANewerOne", "shared.TestTheVersionMinusOneIsNoCondition", "atomic.TestAConditionOnTheLastVersionIsRefused"}, Defect: "shared-older-value",
	},
	{
		Curator: "CURATOR-536", What: "a leave goes on after its timeout",
		Tests: []string{"barriers.TestALeaveEndsWithItsContext"}, Defect: "barriers-leaves-too-late",
	},
	{
		Curator: "GH-1290", What: "any wake-up opens a double barrier",
		Tests: []string{"barriers.TestAWakeUpAloneOpensNothing"}, Defect: "barriers-any-wake-up",
	},
	{
		What:  "members that are fast to leave strand one that is slow to enter",
		Tests: []string{"barriers.TestFastLeaversStrandNoMember"}, Defect: "barriers-stranded-member",
	},
	{
		Curator: "CURATOR-318", What: "an enter that times out leaves its member",
		Tests: []string{"barriers.TestAFailedEnterLeavesNothing"}, Defect: "barriers-member-stays",
	},
	{
		What:  "what has opened a round whose members have died opens the next",
		Tests: []string{"barriers.TestTheOpeningOfARoundThatDiedIsNotForTheNext"}, Defect: "barriers-dead-round",
	},
}

// TestEveryScenarioIsShown also checks that each scenario is played on both servers.
func TestEveryScenarioIsShown(t *testing.T) {
	tests := scenarios.Check(t, curatorTests, pastBugs)
	for _, s := range curatorTests {
		require.True(t, slices.ContainsFunc(s.Tests, func(name string) bool { return runsOnEach(tests[name]) }),
			"%s: no test of it runs on each backend", s.Curator)
	}
}

// runsOnEach reports whether a test runs on each backend.
func runsOnEach(test *ast.FuncDecl) (each bool) {
	ast.Inspect(test, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		each = each || ok && selector.Sel.Name == "EachBackend"
		return true
	})
	return each
}
