package cache_test

import (
	"testing"

	"github.com/gocurator/curator/internal/scenarios"
)

// curatorTests are what Curator's tests of its caches show.
var curatorTests = []scenarios.Scenario{
	{Curator: "TestCuratorCache.testListenerBuilder", What: "listeners with filters", Tests: []string{"TestCuratorCache_testListenerBuilder"}},
	{Curator: "TestCuratorCache.testAfterInitialized", What: "listeners that begin with INITIALIZED", Tests: []string{"TestCuratorCache_testAfterInitialized"}},
	{Curator: "TestCuratorCache.testUpdateWhenNotCachingData", What: "changes without data in memory", Tests: []string{"TestCuratorCache_testUpdateWhenNotCachingData"}},
	{Curator: "TestCuratorCache.testClearOnClose", What: "what stays after Close", Tests: []string{"TestCuratorCache_testClearOnClose"}},
	{Curator: "TestCuratorCache.testGreaterThan64kZNodes", What: "70,000 children", Tests: []string{"TestCuratorCache_testGreaterThan64kZNodes"}},
	{Curator: "TestCuratorCacheEdges.testReconnectConsistency", What: "changes during a partition", Tests: []string{"TestCuratorCacheEdges_testReconnectConsistency", "TestASecondCacheOnAStorageThatWasKept"}},
	{Curator: "TestCuratorCacheEdges.testServerLoss", What: "an outage of all servers", Tests: []string{"TestCuratorCacheEdges_testServerLoss"}},
	{Curator: "TestCuratorCacheConsistency.testConsistencyAfterSimulation", What: "ten clients write while servers die", Tests: []string{"TestCuratorCacheConsistency_testConsistencyAfterSimulation"}},
	{Curator: "TestEventOrdering.testEventOrdering", What: "events of a path alternate under load", Tests: []string{"TestEventOrdering_testEventOrdering"}},
	{Curator: "TestPathChildrenCache.testParentContainerMissing", What: "the root is a container that is removed", Tests: []string{"TestPathChildrenCache_testParentContainerMissing"}},
	{Curator: "TestPathChildrenCache.testInitializedEvenIfChildDeleted", What: "a child goes while it is listed", Tests: []string{"TestPathChildrenCache_testInitializedEvenIfChildDeleted"}},
	{Curator: "TestPathChildrenCache.testKilledSession", What: "a new session, for the children", Tests: []string{"TestPathChildrenCache_testKilledSession"}},
	{Curator: "TestTreeCache.testKilledSession", What: "a new session, for a tree", Tests: []string{"TestTreeCache_testKilledSession"}},
	{Curator: "TestTreeCache.testServerNotStartedYet", What: "no server at the start", Tests: []string{"TestTreeCache_testServerNotStartedYet"}},
	{Curator: "TestNodeCache.testKilledSession", What: "a new session, for one znode", Tests: []string{"TestNodeCache_testKilledSession"}},
}

// pastBugs are bugs that Curator's caches had or have.
var pastBugs = []scenarios.Scenario{
	{Curator: "CURATOR-391", What: "a znode deleted and created again during a partition", Tests: []string{"TestCuratorCacheEdges_testReconnectConsistency"}, Defect: "cache-compares-versions-only"},
	{Curator: "CuratorCacheImpl.putStorage", What: "the same, with the same version at the end", Tests: []string{"TestCuratorCacheEdges_testReconnectConsistency"}, Defect: "cache-compares-versions-only"},
	{Curator: "CURATOR-476", What: "no INITIALIZED if a child goes", Tests: []string{"TestPathChildrenCache_testInitializedEvenIfChildDeleted"}, Defect: "cache-waits-for-a-child-that-is-gone"},
	{Curator: "EnsureContainers.reset", What: "a cache whose root was removed stays empty", Tests: []string{"TestPathChildrenCache_testParentContainerMissing"}, Defect: "cache-does-not-see-the-root-again"},
	{Curator: "CURATOR-690", What: "no INITIALIZED above 64k children", Tests: []string{"TestCuratorCache_testGreaterThan64kZNodes"}, Defect: "cache-counts-to-64k"},
	{Curator: "TreeCache", What: "events told twice", Tests: []string{"TestConvergence"}, Defect: "cache-told-twice"},
	{Curator: "CURATOR-729", What: "a watcher that goes on after the client is closed", Tests: []string{"TestPersistentWatcher_testAfterClientClose"}, Defect: "cache-outlives-its-client"},
	{Curator: "curator#1292", What: "a listener and a watch that stay after Close", Tests: []string{"TestCacheOfATree"}, Defect: "cache-watch-left"},
}

func TestEveryScenarioIsShown(t *testing.T) { scenarios.Check(t, curatorTests, pastBugs) }
