package cache_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testnames"
)

// scenario is a scenario of Curator's tests, or a bug that Curator's caches had or have.
type scenario struct {
	curator string // where Curator has it
	what    string
	test    string // here
	defect  string // the row of testing/internal/mutants that undoes what the test is for
}

// scenarios are what Curator's tests of its caches show.
var scenarios = []scenario{
	{"TestCuratorCache:testListenerBuilder", "listeners with filters", "TestCuratorCache_testListenerBuilder", ""},
	{"TestCuratorCache:testAfterInitialized", "listeners that begin with INITIALIZED", "TestCuratorCache_testAfterInitialized", ""},
	{"TestCuratorCache:testUpdateWhenNotCachingData", "changes without data in memory", "TestCuratorCache_testUpdateWhenNotCachingData", ""},
	{"TestCuratorCache:testClearOnClose", "what stays after Close", "TestCuratorCache_testClearOnClose", ""},
	{"TestCuratorCache:testGreaterThan64kZNodes", "70,000 children", "TestCuratorCache_testGreaterThan64kZNodes", ""},
	{"TestCuratorCacheEdges:testReconnectConsistency", "changes during a partition", "TestCuratorCacheEdges_testReconnectConsistency", ""},
	{"TestCuratorCacheEdges:testServerLoss", "an outage of all servers", "TestCuratorCacheEdges_testServerLoss", ""},
	{"TestCuratorCacheConsistency:testConsistencyAfterSimulation", "ten clients write while servers die", "TestCuratorCacheConsistency_testConsistencyAfterSimulation", ""},
	{"TestEventOrdering:testEventOrdering", "events of a path alternate under load", "TestEventOrdering_testEventOrdering", ""},
	{"TestPathChildrenCache:testParentContainerMissing", "the root is a container that is removed", "TestPathChildrenCache_testParentContainerMissing", ""},
	{"TestPathChildrenCache:testInitializedEvenIfChildDeleted", "a child goes while it is listed", "TestPathChildrenCache_testInitializedEvenIfChildDeleted", ""},
	{"TestPathChildrenCache:testKilledSession", "a new session, for the children", "TestPathChildrenCache_testKilledSession", ""},
	{"TestTreeCache:testKilledSession", "a new session, for a tree", "TestTreeCache_testKilledSession", ""},
	{"TestTreeCache:testServerNotStartedYet", "no server at the start", "TestTreeCache_testServerNotStartedYet", ""},
	{"TestNodeCache:testKilledSession", "a new session, for one znode", "TestNodeCache_testKilledSession", ""},

	{"CURATOR-391", "a znode deleted and created again during a partition", "TestCuratorCacheEdges_testReconnectConsistency", "cache-compares-versions-only"},
	{"CuratorCacheImpl.putStorage", "the same, with the same version at the end", "TestCuratorCacheEdges_testReconnectConsistency", "cache-compares-versions-only"},
	{"CURATOR-476", "no INITIALIZED if a child goes", "TestPathChildrenCache_testInitializedEvenIfChildDeleted", "cache-waits-for-a-child-that-is-gone"},
	{"EnsureContainers.reset", "a cache whose root was removed stays empty", "TestPathChildrenCache_testParentContainerMissing", "cache-does-not-see-the-root-again"},
	{"CURATOR-690", "no INITIALIZED above 64k children", "TestCuratorCache_testGreaterThan64kZNodes", "cache-counts-to-64k"},
	{"TreeCache", "events told twice", "TestConvergence", "cache-told-twice"},
	{"CURATOR-729", "a watcher that goes on after the client is closed", "TestPersistentWatcher_testAfterClientClose", "cache-outlives-its-client"},
	{"curator#1292", "a listener and a watch that stay after Close", "TestCacheOfATree", "cache-watch-left"},
}

// TestScenariosExist: each scenario has its test, and each bug a defect that its test catches.
func TestScenariosExist(t *testing.T) {
	tests, err := testnames.In(".")
	require.NoError(t, err)
	rows, err := os.ReadFile("../../testing/internal/mutants/rows_cache.go")
	require.NoError(t, err)
	for _, s := range scenarios {
		require.Contains(t, tests, s.test, "%s (%s): no test %s", s.curator, s.what, s.test)
		if s.defect == "" {
			require.Contains(t, s.curator, ":test", "a bug has a defect")
			continue
		}
		_, row, found := strings.Cut(string(rows), `"`+s.defect+`"`)
		require.True(t, found, "%s (%s): no defect %s", s.curator, s.what, s.defect)
		row, _, _ = strings.Cut(row, "\n	},\n")
		require.Contains(t, row, `"^`+s.test+`$"`, "the test of the defect %s", s.defect)
	}
}
