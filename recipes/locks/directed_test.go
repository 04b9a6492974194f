// SPDX-License-Identifier: Apache-2.0

// What went wrong in known implementations of locks, and the tests which show that
// it does not go wrong here: each trial leads into the trouble on purpose, and there
// are twenty of each, but for those that inOtherNumbers lists. TestTablesNameTests keeps
// the names in this table, and in that of scenarios_test.go, true, and
// TestTwentyTrialsUnlessSaidOtherwise the number.
//
// The holder and the end of its hold:
//
//	etcd#10811, CURATOR-206, redisson#3636: a holder that is cut off works on beside the next one
//	consul#18271: a holder that is cut off learns of it minutes later
//		TestLeaseHolderKnowsFirst, TestLeaseHolderKnowsFirstWhateverTheLock, TestLeaseHolderKnowsFirstOnFakeTime
//	found here: a holder is cut off together with its server, which goes on answering
//		TestCutOffWithAFollower, TestCutOffFromTheFollowerToo, TestQuorumFollowerWithoutAQuorum,
//		framework.TestTheWarningOfTooShortATimeout
//	found here: a holder is cut off together with the leader, and the others elect another at once
//		TestCutOffWithTheLeader
//	an administrator deletes the holder's node, changes its data, forbids to read it
//		TestLeaseHolderKnowsFirst, TestWatchChangedPredecessorIsNoReasonToEnter, TestWaitHoldersNodeIsMadeUnreadable
//	its node is deleted and another of the same name created while it is away
//		TestExclusiveLockNodeOfTheSameNameIsNotTheHolders
//	the session is closed by another connection that knows its password
//		TestLeaseHolderKnowsFirst, TestLeaseWaiterJoinsTheQueueAgain
//	kubernetes#139991, controller-runtime#1132: the lock is given away while the holder's function still runs
//		TestDoGivesBackAfterTheFunction
//	client-go#1155, kuberhealthy#1533: after a loss nobody contends any more
//		TestLeaseAcquireAgainAfterALoss, TestOutageTurnsGoOnAfterAnOutage
//	CURATOR-595: permits of a semaphore that are lost with the session do not come back
//		TestSemaphorePermitsOfLostSessionsComeBack, TestSemaphorePermitsOfTheDeadComeBackInTime
//	a restart of the servers, one after the other, costs locks
//		TestOutageRollingRestartCostsNoLock
//	go-zookeeper: a server that hangs costs those their sessions who come to it when they reconnect
//		framework.TestAPausedServerCostsNoSession
//
// The creation of the node:
//
//	CURATOR-3, -79, -264, samuel/go-zookeeper#229, #237: the reply is lost, and the node stays or there are two
//		TestCreateOneNodeAlthoughTheNextServerIsBehind, TestCreateOneNodeAlthoughTheClientMovesOn,
//		framework.TestAProtectedCreateSurvivesEveryLoss
//	CURATOR-498, -604, -620, -653, -696: the node of the session before is taken for one's own
//		TestOwnershipNodeOfTheOldSessionIsNotTakenForOurs, TestOwnershipNodeMustBelongToTheSession,
//		framework.TestTheNodeOfAnEarlierSessionIsNotOurs
//	CURATOR-180, -436: the server removes the empty folder under an acquisition, which fails because it is not there
//		TestExclusiveLockFolderGoesBeforeTheNodeIsThere, TestMutexContainerReapedUnderTheLock,
//		TestExclusiveLockSurvivesTheEndOfItsFolders
//
// The wait:
//
//	etcd#11456, #9921: the session of a waiter ends, and when its turn comes it holds with nothing behind it
//		TestWaitTurnOfAnEndedSessionIsNotTaken
//	a predecessor that goes between the list and the watch is waited for, and for ever
//		TestWatchPredecessorGoesBeforeTheWatch
//	kazoo#170: a waiter whose connection is interrupted waits for ever
//		TestLeaseWaiterSurvivesAnInterruption, TestSemaphoreWaitersForAPermitKeepTheirPlace
//	CURATOR-211, -307: a reader or writer whose node is gone fails with an index out of range
//		TestWaitReaderOrWriterJoinsTheQueueAgain, TestReadWriteLockQueue
//	CURATOR-621: another writer gets in while a writer becomes a reader
//		TestReadWriteLockNoWriterGetsInDuringADowngrade, TestDowngradeComesTooLate
//	a reader that asks for the write lock waits for itself
//		TestReadWriteLockReaderCannotBecomeAWriter
//	kazoo#606, #730, go-zookeeper#65: the order is lost where the sequence numbers wrap
//		TestSorterOrderIsThatOfCreation, TestOwnershipQueueKeepsItsOrderAcrossTheWrap, TestReadWriteLockAcrossTheWrap,
//		TestOwnershipNobodyIsAdmittedWhenTheSequenceIsExhausted, TestReadWriteLockWhenTheSequenceIsExhausted
//	CURATOR-43, go-zookeeper#44: a foreign node in the folder fails every acquisition, or queues
//		TestOwnershipForeignChildrenAreIgnored, TestOwnershipLostReplyWithAForeignChild, TestSequence
//	kazoo#649: a reader waits for a writer that came later and waits for the reader
//		TestReadWriteLockQueue, TestReadWriteLockReaderWaitsForTheNearestWriter
//
// What is left behind:
//
//	zk-ruby#49, #51, aiozk#34, kazoo#429, CURATOR-315, -335, -462, etcd#21128: a wait that is given up
//	leaves its node, which blocks everybody after it
//		TestEveryFaultAtEveryRequest, TestCancelledAtEveryRequest, TestDriverFailureAfterTheCreationLeavesNoNode
//	CURATOR-678: a release without a connection fails, and nobody knows who has the lock
//		TestReleaseWhileDisconnected
//	a release on a context that has ended does nothing
//		TestMutexReleaseWithAnEndedContext
//	CURATOR-376, redsync#125: two releases at once, or a second one, fail or release for somebody else
//		TestReleaseAllReleaseAtOnce, TestMutexReleaseIsIdempotentAndSafeOnNil
//	redisson#7272, #1626: what keeps a lock alive goes on after its release
//		TestReleaseNothingWorksOnAfterARelease, TestMutexUnderQuorumErrorPolicy
//	CURATOR-14, -654: watches and goroutines pile up behind a holder
//		TestTryAcquireTenThousandTimesLeavesNothing, TestWatchesDoNotPileUp
//
// Limits:
//
//	participants of a semaphore that go by different maxima do not learn of it
//		TestSemaphoreDisagreementOnTheMaximumIsReported
package locks_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

// twentyTimes runs the test twenty times on each backend, or until it fails.
func twentyTimes(t *testing.T, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	besideOthers(t)
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		for range trials {
			if !t.Run("trial", func(t *testing.T) { test(t, server) }) {
				return
			}
		}
	})
}

// twentyAtOnce does the same with several trials at a time, each at a path of its
// own: for tests that wait more than they work, and do not count what is left.
func twentyAtOnce(t *testing.T, test func(t *testing.T, server zktest.Backend, path string)) {
	t.Helper()
	besideOthers(t)
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		runTrials(t, func(t *testing.T, trial int) { test(t, server, fmt.Sprintf("/locks/%d", trial)) })
	})
}

// runTrials runs twenty trials, several at a time, and begins none after a failure.
func runTrials(t *testing.T, test func(t *testing.T, trial int)) {
	t.Helper()
	gate := make(chan struct{}, trialsAtOnce)
	var wg sync.WaitGroup
	for trial := range trials {
		wg.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			if !t.Failed() {
				t.Run("trial", func(t *testing.T) { test(t, trial) })
			}
		})
	}
	wg.Wait()
}

// inOtherNumbers are the tests of the table that do not have twenty trials of each case.
var inOtherNumbers = map[string]string{
	"TestTablesNameTests":                                     "is about the table",
	"TestEveryFaultAtEveryRequest":                            "has every case once: call, request, fate and policy",
	"TestCancelledAtEveryRequest":                             "has every case once: call, request and fate",
	"TestSequence":                                            "has every kind of name once",
	"TestOwnershipForeignChildrenAreIgnored":                  "has every kind of name at once",
	"TestOwnershipQueueKeepsItsOrderAcrossTheWrap":            "has one queue, with a place for every number at the wrap",
	"TestReadWriteLockAcrossTheWrap":                          "has every kind of node at the wrap, of which there is one",
	"TestOwnershipNobodyIsAdmittedWhenTheSequenceIsExhausted": "asks ten times for the one number that there is no more",
	"TestReadWriteLockWhenTheSequenceIsExhausted":             "asks twice on each side, likewise",
	"TestReadWriteLockReaderWaitsForTheNearestWriter":         "has one queue; TestReadWriteLockQueue has random ones, 1,000 and more",
	"TestMutexContainerReapedUnderTheLock":                    "acquires 1,000 times",
	"TestExclusiveLockSurvivesTheEndOfItsFolders":             "acquires each kind 100 times",
	"TestTryAcquireTenThousandTimesLeavesNothing":             "tries 10,000 times, 2,000 with -short",
	"TestWatchesDoNotPileUp":                                  "has 100 waiters",
	"TestMutexUnderQuorumErrorPolicy":                         "acquires twenty times",
	"TestOutageTurnsGoOnAfterAnOutage":                        "has an outage under 18 clients: each takes a session timeout and a restart",
	"TestCutOffWithAFollower":                                 "cuts off 20 holders at once for each policy that claims to be safe: each cut takes three servers of its own",
	"TestCutOffFromTheFollowerToo":                            "likewise",
	"TestCutOffWithTheLeader":                                 "likewise",
	"TestQuorumFollowerWithoutAQuorum":                        "has one holder: it takes three servers, and 20 are in TestCutOffWithAFollower",
}

// A test of the table has its twenty trials by one of the means of this package, or it is
// in the list of the others. Those of other packages are not looked at.
func TestTwentyTrialsUnlessSaidOtherwise(t *testing.T) {
	means := regexp.MustCompile(`\b(twentyTimes|twentyAtOnce|runTrials|trials|phases|rapid\.Check)\b`)
	sources := make(map[string]string)
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, file := range files {
		maps.Copy(sources, testsIn(t, file))
	}
	named := namedIn(t, "directed_test.go")
	for _, name := range named {
		if name, ours := strings.CutPrefix(name, "."); ours {
			_, isListed := inOtherNumbers[name]
			require.NotEqual(t, isListed, means.MatchString(sources[name]), "%s has twenty trials, or else is in inOtherNumbers", name)
		}
	}
	for name := range inOtherNumbers {
		require.Contains(t, named, "."+name)
	}
}

// folders are the packages whose tests the tables name.
var folders = map[string]string{"": ".", "framework": "../../framework", "interop": "../../testing/internal/interop"}

// Every test that a table names exists.
func TestTablesNameTests(t *testing.T) {
	exist := make(map[string]bool)
	for pkg, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			for name := range testsIn(t, file) {
				exist[pkg+"."+name] = true
			}
		}
	}
	for file, atLeast := range map[string]int{"directed_test.go": 40, "scenarios_test.go": 40} {
		named := namedIn(t, file)
		require.GreaterOrEqual(t, len(named), atLeast, file)
		for _, name := range named {
			require.True(t, exist[name], "%s names %s, which is no test", file, name)
		}
	}
}

// testsIn returns the tests of a file, and their source.
func testsIn(t *testing.T, file string) map[string]string {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	tests := make(map[string]string)
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			tests[f.Name.Name] = string(source[files.Position(f.Pos()).Offset:files.Position(f.End()).Offset])
		}
	}
	return tests
}

// namedIn returns the tests that are named before the package clause of a file, with
// the package that they are said to be in, if it is another one.
func namedIn(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
	require.NoError(t, err)
	var names []string
	for _, m := range regexp.MustCompile(`\b(?:([a-z]+)\.)?(Test[A-Z]\w*)`).FindAllStringSubmatch(parsed.Doc.Text(), -1) {
		names = append(names, m[1]+"."+m[2])
	}
	return names
}
