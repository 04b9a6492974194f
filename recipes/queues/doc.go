// SPDX-License-Identifier: Apache-2.0

// Package queues has queues that many processes put items into and consume
// items from.
//
//	queue, err := queues.NewDistributedQueue(client, "/queues/mails", queues.WithLockPath("/queues/mails-locks"))
//	err = queue.Put(ctx, []byte("a mail"))
//
//	err = queue.Consume(ctx, func(ctx context.Context, item []byte) error { ... }) // until ctx ends
//
// Or with a range loop:
//
//	for item, err := range queue.Items(ctx) {
//		if err != nil {
//			return err
//		}
//		if err := send(item.Context(), item.Data); err != nil {
//			item.Fail(err)
//		}
//	}
//
// These are the queues:
//
//   - [DistributedQueue] is first in, first out.
//   - [DistributedPriorityQueue] gives items with a lower number first.
//   - [DistributedDelayQueue] gives each item at a time of its own.
//   - [DistributedIdQueue] has items that can be removed by their ids.
//   - [QueueSharder] spreads items over several queues of one of these kinds.
//   - [SimpleDistributedQueue] is the plain queue of ZooKeeper's own recipes.
//
// They share their znodes, byte for byte, with Curator's classes of the same
// names. Only a QueueSharder has to be started and closed. A queue has a
// goroutine only while it puts items in the background or has to unlock an item.
//
// # What is promised
//
// An item whose Put has succeeded is in the queue until it is consumed. A Put
// is never repeated when its reply was lost: [framework.OutcomeUnknown] is then
// true for its error, and the caller decides whether twice or never is worse.
//
// Without a lock path, an item is deleted before it is consumed. No item is
// consumed twice. An item is lost with the consumer that has it, and whenever
// the reply to its deletion is lost: the log then names it.
//
// With [WithLockPath], an item is deleted after it was consumed, so none is
// lost. A consumer that dies, or whose session ends, may have consumed an item
// in part or whole, and another one then consumes it again. Otherwise each item
// is consumed once. While the context of an item has not ended, no other
// consumer has it, as far as the client's error policy promises that: see
// [framework.WithErrorPolicy].
//
// While a consumer has a locked item, the item has an ephemeral child. So a consumer needs the
// permissions to create and delete below the items and below the lock path, and the item cannot be
// deleted by others.
//
// An item that cannot be read, because it is too long, forbidden or damaged, is left out. The log
// says so. The consumer looks at it again when its data changes, and when it goes on after an outage. A client made
// WithMeterProvider counts what its consumers leave out, each time: curator.queues.left_out, a counter with the unit
// {znode}. Only [framework.WithPathAttribute] adds the attribute curator.path.
//
// A failed item is put back in one transaction, with the priority, the time or
// the id that it has. Of several items in one znode, those that were consumed
// are not put back, nor do they stay when the loop is left before the others.
//
// # Results that exist once
//
// A consumer whose results are in ZooKeeper removes the item together with writing them:
//
//	for item, err := range queue.Items(ctx) {
//		if err != nil {
//			return err
//		}
//		result := work(item.Context(), item.Data)
//		if err := item.Transact(ctx, framework.CreateOp("/results/"+name, result)); err != nil {
//			item.Fail(err)
//		}
//	}
//
// The item may be given to several consumers. One of them removes it, and the results of that one
// exist. See [Item.Transact].
//
// [WithMaxAttempts] keeps an item that always fails from coming back forever. [Item.Attempt] says how
// often it came.
//
// # What they are not for
//
// ZooKeeper keeps a queue in the memory of every server and sends its whole list
// of names to consumers. Curator's own advice (Tech Note 4) is not to use it for
// queues. They are for a few items at a time: work to hand out to a fleet,
// orders to a controller. Use a message broker for more than this:
//
//   - An item must be smaller than a megabyte, and should be a few kilobytes.
//   - A list has some 25 bytes for each item, more with priorities or ids. It
//     must stay below [framework.WithMaxReplySize] and below Java's
//     jute.maxbuffer, a megabyte: some 35,000 items. Then consumers can no longer
//     read the queue, and it takes another client to clear it. [WithMaxItems]
//     keeps producers from that, if all use it.
//   - A consumer of a [DistributedQueue] reads the list once for all items that
//     are in it. One of a [DistributedPriorityQueue] or a [DistributedDelayQueue]
//     reads it again for the next item whenever another client has changed it.
//     [WithMinItemsBeforeRefresh] makes that rarer.
//   - Every change of a queue wakes all consumers that wait.
//   - Each item costs writes that a majority of the servers puts on disk: one to
//     put it, one to consume it, or two with locks. These compete with the locks
//     and elections of the same ensemble.
//   - Several consumers do not consume in order. If only one may run, elect it with
//     package leader.
//
// How many items a second go through a queue depends on the servers and on the
// way to them: a consumer makes its requests one after the other. For an item it
// reads the znode and deletes it. With [WithLockPath] it makes a transaction, a
// read and another transaction. In a clone of the repository, this command puts
// and consumes a thousand items of each kind of queue, beside Curator:
//
//	go -C testing/internal/bench run . -peers self-values,curator-values -scenario items-fifo,items-locked,items-priority,items-delay,items-id,items-simple
//
// It prints put_per_s and consumed_per_s, and the requests and bytes for each
// item. The README in that folder has the last figures.
//
// # Coming from Curator
//
//   - Queues have no start and close; the consumer of the constructor is Consume,
//     or Items, and its context. A QueueSharder has both, and its queues need no
//     consumer to be made.
//   - Items are bytes. The serializer is the caller's.
//   - put blocks until the item is in the queue, unless [WithPutInBackground] is
//     given. FlushPuts waits for the others.
//   - A maximum wait is the deadline of the context.
//   - Of the simple queue, remove and element, which throw on an empty queue, and
//     poll and peek, which return null, are Poll and Peek with [ErrEmpty].
//   - Requeued items keep their priority and their delay. Curator puts them in
//     front of all others.
//   - An item whose consumer has died is consumed at once when its lock is gone.
//     Curator's consumers see it after the next change of the queue.
//   - A znode that is not an item stays in the queue, with an error in the log. Curator
//     deletes it.
package queues
