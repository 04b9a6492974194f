// Package checker decides from what clients saw whether a lock kept its promise.
//
// # Recording
//
// What a client does with a lock is an [Op]: when it called, when the call
// returned, and the token it got. A hold ends when the holder knows of it, be it by
// release or by loss, so both are a [Release]:
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
// Calls that acquired nothing have changed nothing and are left out. The interval of
// an operation has to contain the moment in which it took effect, and the narrower
// it is the more is noticed. A hold that is lost while the holder is silent has two
// bounds: the last moment at which it was known to be valid, or at which somebody
// began to end it from outside, and the moment at which the holder was told.
//
// Processes of one machine can record for themselves, one [Op] in JSON a line, with
// a monotonic clock that they share; [ReadOps] reads the lines back.
//
// # Deciding
//
// [Check] looks for an order of the operations that agrees with their intervals and
// that a lock of the given [Model] could have gone through: for each lock by itself,
// with porcupine, which decides and does not sample. If there is none, the error is
// a [*ViolationError], whose text shows how far one gets.
//
//	err := checker.Check(checker.Mutex(), history.Ops())
//
//	Mutex          one owner, and every token above all before
//	Reentrant      a mutex whose owner may acquire it again, with the same token
//	ReadWrite      one writer or readers; a writer may be a reader too
//	Semaphore      no more permits than there are, a number that may change
//
// Several locks that are acquired together, as by a multi-lock, are as many
// operations with the same interval.
package checker
