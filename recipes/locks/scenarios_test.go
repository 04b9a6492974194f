// SPDX-License-Identifier: Apache-2.0

// What Curator's own tests of its locks do, and what they leave out, and the tests
// which do it here, on the embedded server and on real ZooKeeper.
//
// Of a mutex; also of the locks that are made of a semaphore or of several locks:
//
//	it is held within its scope, and free afterwards
//		TestDo, TestExclusiveLockExcludes
//	the server is restarted by whoever holds it while another waits: both get through
//		TestOutageServerRestartsUnderTheLocks, TestOutageThatIsShortCostsNothing
//	the holder's session is killed: whoever waits has it
//		TestExclusiveLockSurvivesItsHolder, TestLeaseHolderKnowsFirst
//	the server removes empty folders all the time: nobody fails, and in the end the folder is gone
//		TestMutexContainerReapedUnderTheLock, TestExclusiveLockSurvivesTheEndOfItsFolders, TestOwnershipFolderGoesAway
//	in a namespace
//		TestExclusiveLockExcludes, TestOwnershipGoesByTheNodeAtTheServer
//	ten workers with one lock are inside one at a time
//		TestExclusiveLockExcludes, TestMutexOneHolderAtATime
//	its owner enters again, and nobody else in between; it is held until the last release
//		TestMutexReentrancyTravelsInTheContext
//	two clients take turns
//		TestMutexQueueIsServedInOrder, TestProcessesTakeTurns
//	the holder is asked to give it back, does so, and another has it
//		TestRevocationListenerReleases, TestRevocationHolderIsTold
//	the mutex of a semaphore does not let its owner in again
//		TestSemaphoreMutexIsNotReentrant
//	the list after the creation fails: an error, and no node
//		TestDriverFailureAfterTheCreationLeavesNoNode
//	the same, and with the connection and the session gone the deletion fails too: the first error is the one
//		TestDriverFirstFailureIsTold
//	nodes and folder have the access control lists of the provider, each its own
//		TestExclusiveLockNodesHaveTheProvidersACLs
//	one of several locks cannot be released: that is told, and the others are released
//		TestMultiLockMemberIsLost
//	one of several locks cannot be acquired: those before are given back, those after are not tried
//		TestMultiLockFirstFailureStopsAMultiLock
//	the nodes are not ephemeral: the lock is kept when its holder's client is closed, until the node is deleted
//		TestPersistentLockThatOutlivesItsHolder
//
// Curator's schemas, which allow only certain nodes in a place, do not exist here.
//
// Of readers and writers:
//
//	eight contenders read and write: readers together, writers alone
//		TestReadWriteLockWritersAreAlone
//	twenty read while eight wait to write: so many are in the lists
//		TestReadWriteLockReadersShareAndWritersQueue
//	a reader that wants to write is refused, and goes on reading
//		TestReadWriteLockReaderCannotBecomeAWriter
//	a writer becomes a reader, whichever lease is released first; nobody else reads while it writes
//		TestDowngrade
//	another writer that waits does not get in meanwhile
//		TestReadWriteLockNoWriterGetsInDuringADowngrade
//	the node has the data that was given, a copy
//		TestReadWriteLockLayout
//	the session of the holder is killed: its node is gone, and another has the lock
//		TestReadWriteLockWriterWhoseSessionIsKilled
//
// Of semaphores:
//
//	of one permit, the second cannot be had in time; of three, the fourth, until one is released
//		TestSemaphorePermitIsAPermit
//	more contenders than permits: never more at once than there are, in the end all were served
//		TestSemaphoreNoMorePermitsThanTheMaximum
//	contenders that want several together, as many as there are
//		TestSemaphoreLeasesTogether, TestSemaphoreAllLeasesOrNone
//	the permits that are held are in the list
//		TestSemaphorePermitIsAPermit
//	a client is closed: its permits are free
//		TestSemaphoreClosingTheClientFreesItsPermits
//	the number is raised: a waiter gets in
//		TestSemaphoreMorePermitsWhilePeopleWait
//	the number is lowered below what is wanted, deleted, changed while a waiter is away
//		TestSemaphoreMaximumFallsBelowWhatIsWanted, TestSemaphoreMaximumIsDeletedWhilePeopleWait,
//		TestSemaphoreMaximumChangesDuringAnOutage
//	the node of a waiter is deleted: it makes another, and in the end there is none
//		TestSemaphoreLeaseDeletedWhileItIsWaitedFor
//	a waiter is cancelled: its node is gone, and the next can have the permit
//		TestEveryFaultAtEveryRequest, TestSemaphoreAllLeasesOrNone
//	the server is away until all sessions are lost: then turns are taken again
//		TestOutageTurnsGoOnAfterAnOutage
//	clients are led to other servers that know nothing: first nobody has the permit, then one
//		TestOutageOtherServersTakeOver
//	an ensemble is stopped, and a part of it comes back
//		TestOutageTurnsGoOnWithAMajority
//	sessions end while permits are held: all of them are told, and all permits are back
//		TestSemaphorePermitsOfLostSessionsComeBack, TestSemaphorePermitsOfTheDeadComeBackInTime
//
// What Curator has no tests for:
//
//	the session ends between the creation and the list of a server that still has the old node
//		TestOwnershipNodeOfTheOldSessionIsNotTakenForOurs
//	Go and Java on one path: mutex, readers and writers, semaphores, revocation
//		interop.TestMutexContest, interop.TestReadWriteContest, interop.TestReadersAndWritersOfBothSides,
//		interop.TestSemaphoreContest, interop.TestSemaphoreV2Contest, interop.TestSemaphoreMutexContest,
//		interop.TestLeasesOfBothSides, interop.TestParticipantsOfBothSides, interop.TestTheOtherSideDies,
//		interop.TestJavaAsksGo, interop.TestGoAsksJava, interop.TestJavaAsksGoForEveryLock,
//		interop.TestGoAsksReadersAndWritersInJava
//	the sequence number near its end
//		TestSorterOrderIsThatOfCreation, TestOwnershipQueueKeepsItsOrderAcrossTheWrap,
//		TestOwnershipNobodyIsAdmittedWhenTheSequenceIsExhausted
//	a context that ends at each step of each call
//		TestEveryFaultAtEveryRequest, TestCancelledAtEveryRequest
//	a connection that is lost, or an answer that does not come, at each step of each call
//		TestEveryFaultAtEveryRequest
//	two multi-locks with the same members in opposite orders
//		TestMultiLocksDoNotWaitInACircle
//	two that want more than half of the permits together; one that wants more than there are
//		TestSemaphoreLeasesTogether, TestSemaphoreAllLeasesOrNone
//	a lock is asked for before its holder watches the node
//		TestRevocationRequestBeforeTheWatchIsNotMissed, TestRevocationReadOfAWaiterIsEnough
//	a deletion in the background that comes late does not hit the next owner's node
//		TestLeaseAcquireAgainAfterALoss, TestReleaseWhileDisconnected
//	a node is deleted and created again while its owner is away
//		TestExclusiveLockNodeOfTheSameNameIsNotTheHolders
package locks_test
