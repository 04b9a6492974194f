// SPDX-License-Identifier: Apache-2.0

// Package checker decides whether a lock has kept its promise, from the operations that
// its clients recorded.
//
// # Recording
//
// An [Op] is one operation of a client on a lock: the time of the call, the time of its
// return, and the token. A hold ends when its holder learns of the end, by release or by
// loss. So both are a [Release]:
//
//	history := checker.NewHistory()
//	call := history.Now()
//	lease, err := mutex.Acquire(ctx)
//	if err == nil {
//		history.Add(checker.Op{Kind: checker.Acquire, Lock: mutex.Path(), Owner: "worker 7",
//			Token: lease.Token(), Call: call, Return: history.Now()})
//	}
//	...
//	released := history.Now()
//	<-lease.Done() // however it ends
//	history.Add(checker.Op{Kind: checker.Release, Lock: mutex.Path(), Owner: "worker 7",
//		Call: released, Return: history.Now()})
//
// Leave out calls that acquired nothing, because they change nothing. The interval of an
// operation must contain the moment at which it took effect. A narrower interval reveals
// more. The interval of a lost hold's end begins at the last moment at which the hold
// was known to be valid, or at which another client began to end it. It ends at the
// moment at which the holder learned of the loss.
//
// Several processes of one machine can each write one [Op] in JSON per line, by a
// monotonic clock that they share. [ReadOps] reads the lines back.
//
// # Deciding
//
// For each lock, [Check] looks for an order of the operations that agrees with their
// intervals and that the given [Model] allows. It uses porcupine, which decides and does
// not sample. If no such order exists, the error is a [*ViolationError]; its text shows
// the longest order that was found.
//
//	err := checker.Check(checker.Mutex(), history.Ops())
//
//	Mutex          one owner, and every token above all before
//	Reentrant      a mutex whose owner may acquire it again, with the same token
//	ReadWrite      one writer or readers; a writer may be a reader too
//	Semaphore      no more permits than there are, a number that may change
//
// An acquisition of several locks at once, as by a multi-lock, is one operation for each
// lock, all with the same interval.
package checker
