// Package recipes_test maps what Curator's tests show, and what has gone wrong in
// Curator, to tests of the recipes.
package recipes_test

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testnames"
)

// shown is something that values, barriers and queues must get right, and the tests that
// show it, each after its folder.
type shown struct {
	what  string
	tests []string
}

// scenarios are Curator's own tests, by class and method. At least one of the tests that
// show each runs on the embedded server and on real ZooKeeper.
var scenarios = []shown{
	{"TestDistributedAtomicLong.testBasic", []string{"atomic.TestArithmetic"}},
	{"TestDistributedAtomicLong.testForceSet", []string{"atomic.TestAForcedSetReplacesTheValue"}},
	{"TestDistributedAtomicLong.testCompareAndSet", []string{"atomic.TestCompareAndSetAndInitialize"}},
	{"TestDistributedAtomicLong.testCompareAndSetWithFreshInstance", []string{"atomic.TestCompareAndSetAndInitialize"}},
	{"TestDistributedAtomicLong.testCorruptedValue", []string{"atomic.TestOddBytes"}},
	{"TestDistributedAtomicLong.testSimulation", []string{"atomic.TestAdditionsOfManyClients"}},
	{"TestCachedAtomicCounter.testBasic", []string{"atomic.TestCachedCountersHandOutBlocks"}},
	{"TestCachedAtomicCounter.testWithError", []string{"atomic.TestTheNextBlockFails"}},

	{"TestSharedCount.testMultiClients", []string{"shared.TestListenersHearNumbersInOrder"}},
	{"TestSharedCount.testSimpleVersioned", []string{"shared.TestATrySucceedsOnlyOnTheNewestValue"}},
	{"TestSharedCount.testMultiClientVersioned", []string{"shared.TestATrySucceedsOnlyOnTheNewestValue"}},
	{"TestSharedCount.testMultiClientDifferentSeed", []string{"shared.TestTheFirstSeedWins"}},
	{
		"TestSharedCount.testDisconnectEventOnWatcherDoesNotRetry",
		[]string{"shared.TestAReconnectTellsNothingThatIsNotNew", "shared.TestACopyOutlivesAReadThatFails"},
	},
	{"TestSharedCount.testDisconnectReconnectEventDoesNotFireValueWatcher", []string{"shared.TestAReconnectTellsNothingThatIsNotNew"}},
	{"TestSharedCount.testDisconnectReconnectWithMultipleClients", []string{"shared.TestChangesDuringAnOutageAreSeen"}},

	{"TestDistributedBarrier.testBasic", []string{"barriers.TestRemovingABarrierLetsAllGoOn"}},
	{"TestDistributedBarrier.testMultiClient", []string{"barriers.TestRemovingABarrierLetsAllGoOn"}},
	{"TestDistributedBarrier.testNoBarrier", []string{"barriers.TestRemovingABarrierLetsAllGoOn"}},
	{"TestDistributedBarrier.testServerCrash", []string{"barriers.TestAWaitFailsWithoutAServer"}},
	{"TestDistributedDoubleBarrier.testBasic", []string{"barriers.TestMembersBeginAndEndTogether"}},
	{"TestDistributedDoubleBarrier.testMultiClient", []string{"barriers.TestMembersBeginAndEndTogether"}},
	{"TestDistributedDoubleBarrier.testOverSubscribed", []string{"barriers.TestMoreMembersThanNeeded"}},
	{"TestDistributedDoubleBarrier.testSpuriousWakeup", []string{"barriers.TestAWakeUpAloneOpensNothing"}},

	{"TestDistributedQueue.testSafetyWithCrash", []string{"queues.TestTheItemOfAConsumerThatDiesIsConsumedByAnother"}},
	{"TestDistributedQueue.testNoDuplicateProcessing", []string{"queues.TestNoItemIsConsumedTwice"}},
	{"TestDistributedQueue.testRetryAfterFailure_Curator56", []string{"queues.TestNamesDoNotGrowWithEachFailure"}},
	{"TestDistributedQueue.testErrorMode", []string{"queues.TestAFailedItemIsPutBackOrDeleted"}},
	{"TestDistributedQueue.testPutMulti", []string{"queues.TestItemsOfOneZnode"}},
	{"TestDistributedQueue.testFlush", []string{"queues.TestNoItemIsConsumedTwice", "queues.TestPutsInTheBackgroundArriveInOrder"}},
	{"TestLongNetworkPartition.testLongNetworkPartition", []string{"queues.TestConsumersSurviveTheirSessions", "queues.TestConsumersSurviveALongPartition"}},
	{"TestDistributedDelayQueue.testSorting", []string{"queues.TestDelayedItemsComeInTheOrderOfTheirTimes"}},
	{"TestDistributedDelayQueue.testLateAddition", []string{"queues.TestALaterItemThatIsDueEarlierComesFirst"}},
	{"TestDistributedPriorityQueue.testSimple", []string{"queues.TestLowerPrioritiesComeFirst"}},
	{"TestDistributedPriorityQueue.testSortingWhileTaking", []string{"queues.TestALaterItemOfLowerPriorityComesFirst"}},
	{"TestDistributedIdQueue.testDeletingWithLock", []string{"queues.TestAnItemThatIsConsumedIsNotRemoved"}},
	{"TestDistributedIdQueue.testRequeuingWithLock", []string{"queues.TestAnItemThatIsConsumedIsNotRemoved"}},
	{"TestSimpleDistributedQueue.testHangFromContainerLoss", []string{"queues.TestATakeSurvivesThatItsContainerIsDeleted"}},
}

// pastBugs are the ways in which these recipes of Curator went wrong, or still do.
var pastBugs = []shown{
	{
		"CURATOR-56: a failed item gets a longer name each time, and loses its priority or its delay",
		[]string{"queues.TestNamesDoNotGrowWithEachFailure", "queues.TestAFailedItemKeepsItsPriority", "queues.TestAFailedItemKeepsItsTime"},
	},
	{
		"CURATOR-308: a queue hangs when its container is deleted",
		[]string{"queues.TestATakeSurvivesThatItsContainerIsDeleted", "queues.TestConsumersSurviveThatTheirFolderIsDeleted"},
	},
	{"CURATOR-623: consumers stop after a long partition", []string{"queues.TestConsumersSurviveALongPartition"}},
	{"CURATOR-311: a value is stale after a reconnection", []string{"shared.TestChangesDuringAnOutageAreSeen"}},
	{"CURATOR-329: a value is not read when it is started", []string{"shared.TestTheFirstSeedWins"}},
	{"CURATOR-344: a watcher blocks in a retry loop", []string{"shared.TestACopyOutlivesAReadThatFails", "shared.TestAReconnectTellsNothingThatIsNotNew"}},
	{
		"CURATOR-688: a value freezes when its version overflows",
		[]string{
			"shared.TestAnOlderValueNeverReplacesANewerOne", "shared.TestTheVersionMinusOneIsNoCondition",
			"atomic.TestAConditionOnTheLastVersionIsRefused",
		},
	},
	{"CURATOR-536: a leave goes on after its timeout", []string{"barriers.TestALeaveEndsWithItsContext"}},
	{"GH-1290: any wake-up opens a double barrier", []string{"barriers.TestAWakeUpAloneOpensNothing"}},
	{"members that are fast to leave strand one that is slow to enter", []string{"barriers.TestFastLeaversStrandNoMember"}},
	{"CURATOR-318: an enter that times out leaves its member", []string{"barriers.TestAFailedEnterLeavesNothing"}},
	{"what has opened a round whose members have died opens the next", []string{"barriers.TestTheOpeningOfARoundThatDiedIsNotForTheNext"}},
}

// TestEveryScenarioIsShown checks that the tests which the tables name exist, and that each
// scenario is played on both servers.
func TestEveryScenarioIsShown(t *testing.T) {
	known := make(map[string]map[string]*ast.FuncDecl) // tests by folder
	find := func(name string) *ast.FuncDecl {
		folder, test, _ := strings.Cut(name, ".")
		if known[folder] == nil {
			tests, err := testnames.In(folder)
			require.NoError(t, err)
			known[folder] = tests
		}
		return known[folder][test]
	}
	for i, s := range append(scenarios, pastBugs...) {
		require.NotEmpty(t, s.tests, s.what)
		onBoth := i >= len(scenarios)
		for _, name := range s.tests {
			test := find(name)
			require.NotNil(t, test, "%s: no test %s", s.what, name)
			onBoth = onBoth || runsOnEach(test)
		}
		require.True(t, onBoth, "%s: no test of it runs on each backend", s.what)
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
