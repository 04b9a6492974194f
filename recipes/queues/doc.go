// SPDX-License-Identifier: Apache-2.0

// Package queues has queues for many processes, which put items into them and consume items from
// them. They are kept for programs that have Curator's queues; see "What queues are not for".
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
//   - [DistributedDelayQueue] gives each item at its own time.
//   - [DistributedIdQueue] has items that can be removed by their ids.
//   - [QueueSharder] spreads items over several queues of one of these kinds. It is kept for programs that have
//     Curator's, and gets no new options.
//   - [SimpleDistributedQueue] is the plain queue of ZooKeeper's own recipes.
//
// They share their znodes, byte for byte, with Curator's classes of the same
// names. Only a QueueSharder has to be started and closed. A queue has a
// goroutine only while it puts items in the background or has to unlock an item.
//
// # What is promised
//
// An item whose Put has succeeded is in the queue until it is consumed. A Put whose reply was
// lost is never repeated. [framework.OutcomeUnknown] is then true for its error. The caller
// decides whether to risk an item twice or no item.
//
// Without a lock path, an item is deleted before it is consumed. No item is consumed twice. An
// item is lost if its consumer dies, or if the reply to its deletion is lost. In the second case
// the log names the item.
//
// With [WithLockPath], an item is deleted after it was consumed, so no item is lost. A consumer
// that dies, or whose session ends, may have consumed an item in part or whole. Another consumer
// then consumes the item again. Otherwise each item is consumed once. While the context of an
// item has not ended, no other consumer has the item, as far as the client's error policy
// promises: see [framework.WithErrorPolicy].
//
// While a consumer has a locked item, the item has an ephemeral child. So a consumer needs the
// permissions to create and delete below the items and below the lock path. Other clients cannot
// delete the item meanwhile.
//
// An item that cannot be read, because it is too long, forbidden or damaged, is left out. The log
// says so. The consumer reads the item again when its data changes, and when the consumer goes on
// after an outage.
//
// A queue may be copied to other servers, znode by znode, although the copied folder numbers its items from the
// beginning again. The first put of each value of a queue reads the list of names for that. If numbers of items come
// again, it has the server skip them, or gives the items new numbers in their order. Copied items then come before new
// ones. Curator does not do that: while only Java puts items into a copy, puts may fail, or overtake older items.
//
// A failed item is put back in one transaction, with its priority, time or id. If a znode has
// several items, only the items that were not consumed are put back. If the loop is left early,
// only these items stay.
//
// # Results that exist once
//
// A consumer that writes its results to ZooKeeper can write them and remove the item in one
// transaction:
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
// The queue may give the item to several consumers. Only one of them removes it, and only the
// results of that consumer exist. See [Item.Transact].
//
// [WithMaxAttempts] keeps an item that always fails from coming back forever. [Item.Attempt] is
// the number of its deliveries.
//
// # Metrics
//
// A client made WithMeterProvider measures its queues:
//
//	instrument                        kind, unit
//	curator.queues.put                counter {item}
//	curator.queues.consumed           counter {item}
//	curator.queues.failed             counter {item}
//	curator.queues.dead               counter {item}
//	curator.queues.left_out           counter {znode}
//	curator.queues.waiting            gauge {znode}
//
// An item that fails counts each time. Dead items were moved to a dead letter folder. The gauge has
// how many znodes a consumer has left to try of its last list. While no consumer runs, only producers
// with [WithMaxItems] measure it. A process that does neither has the depth in a callback, for a request each time:
//
//	meter.Int64ObservableGauge("orders.depth", metric.WithInt64Callback(func(ctx context.Context, o metric.Int64Observer) error {
//		n, err := queue.Len(ctx)
//		o.Observe(int64(n))
//		return err
//	}))
//
// A [SimpleDistributedQueue] counts what is put and consumed. The counters exist, with zeros, from
// the start. Only [framework.WithPathAttribute] adds the attribute curator.path.
//
// # What queues are not for
//
// ZooKeeper keeps a queue in the memory of every server, and sends its whole list of names to
// consumers. Curator's own advice (Tech Note 4) is not to use ZooKeeper for queues. These queues
// are for a few items at a time, such as work for a fleet or orders to a controller. Beyond these
// limits use a message broker:
//
//   - An item must be smaller than a megabyte, and should be a few kilobytes.
//   - A list has some 25 bytes for each item, more with priorities or ids. It must stay below
//     [framework.WithMaxReplySize] and below Java's jute.maxbuffer, a megabyte, which is some
//     35,000 items. With a longer list consumers can no longer read the queue, and another client
//     must clear it. [WithMaxItems] keeps producers below a limit, if all producers use it.
//   - A consumer of a [DistributedQueue] reads the list once for all items in it. A consumer of a
//     [DistributedPriorityQueue] or a [DistributedDelayQueue] reads the list again for the next
//     item, whenever another client has changed it. With [WithMinItemsBeforeRefresh] it reads the
//     list less often.
//   - Every change of a queue wakes all consumers that wait.
//   - Each item costs writes that a majority of the servers puts on disk: one to
//     put it, one to consume it, or two with locks. These compete with the locks
//     and elections of the same ensemble.
//   - Several consumers do not consume in order. If only one consumer may run, elect it with
//     package leader.
//
// The number of items per second depends on the servers and on the network, because a consumer
// makes its requests one after the other. For an item it reads the znode and deletes it. With
// [WithLockPath] it makes a transaction, a read and another transaction. NOTES.md in
// testing/internal/bench of the repository has what each kind of queue did in a second, beside Curator's.
//
// # Coming from Curator
//
//   - Queues have no start and close. Consume, or Items, with its context takes the place of the
//     consumer in the constructor. A QueueSharder has Start and Close. Its queues are made
//     without a consumer.
//   - Items are bytes. The serializer is the caller's.
//   - put blocks until the item is in the queue. With [WithPutInBackground] it does not block,
//     and FlushPuts waits.
//   - A maximum wait is the deadline of the context.
//   - On an empty simple queue, Curator's remove and element throw, and its poll and peek return
//     null. Poll and Peek return [ErrEmpty] instead.
//   - Requeued items keep their priority and their delay. Curator puts them in
//     front of all others.
//   - An item whose consumer has died is consumed at once when its lock is gone.
//     Curator's consumers see it after the next change of the queue.
//   - A znode that is not an item stays in the queue, with an error in the log. Curator
//     deletes it.
package queues
