// SPDX-License-Identifier: Apache-2.0

// Package partition divides a set of work among the live members of a group. Each partition has
// at most one holder, with a lease and a fencing token. When a member joins or leaves, only as
// many partitions move as balance needs. The package is experimental until version 0.2: its API may change.
//
// # Share work
//
//	member, err := partition.New(client, "/orders/partitions", partition.Fixed("0", "1", "2", "3"))
//	if err != nil {
//		return err
//	}
//	err = member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
//		return consume(ctx, p.Name, p.Lease.Token()) // ctx ends when the partition must go
//	})
//
// Each replica runs the same program. The function runs on a goroutine of its own for each
// partition that the replica has. When ctx ends the function should return soon, because the
// next replica waits for its return.
//
// # A set that changes
//
// [Stored] names a znode with one partition per line. The members follow the znode:
//
//	member, err := partition.New(client, "/orders/partitions", partition.Stored("/orders/topics"))
//	err = client.Set(ctx, "/orders/topics", []byte("eu\nus\nasia"))
//
// # Many leaderships
//
// A partition is an election that the group keeps balanced. Suppose that a service has a leader
// for each of many tenants. With a LeaderLatch of package leader for each tenant, the first
// replica would lead all of them. If the tenants are partitions, the leaders are spread over the
// replicas:
//
//	member, err := partition.New(client, "/tenants/leaders", partition.Stored("/tenants/names"))
//	err = member.Run(ctx, func(ctx context.Context, tenant partition.Partition) error {
//		return lead(ctx, tenant.Name) // the token of the lease is the term
//	})
//
// # Members that differ
//
// [WithCapacity] gives a member more or fewer partitions than others have. A capacity is
// relative, and no limit: while any member lives, each partition has a holder.
//
// # Partitions that differ
//
// [Partition.ReportLoad] says how much work a partition makes. Then the group divides loads instead of
// numbers:
//
//	err = member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
//		for batch := range batches(ctx, p.Name) {
//			p.ReportLoad(batch.MessagesPerMinute)
//		}
//	})
//
// A line of a [Stored] set may have a load, too: the name, a tab and a number.
//
// # How a partition moves
//
// The new owner queues at the partition's lock and asks the old owner for it. The context of the
// old owner's function ends with [ErrMoved]. When the function has returned, the old owner
// releases the lock, and the new owner has it a round trip later. If a function does not return
// within the time of [WithGrace], it is reported as [Overdue], and the partition stays with its
// owner.
//
// A join moves partitions when no member has joined or left for the time of [WithSettle]. So a
// deployment of many replicas moves them once. Partitions without a holder are placed at once.
//
// # Rolling restarts
//
// With [WithID] and [WithReturn] a member that restarts gets its partitions again, and nothing else moves:
//
//	member, err := partition.New(client, path, set, partition.WithID(podName), partition.WithReturn(30*time.Second))
//
// A rolling restart of ten members with 100 partitions then starts 100 functions. Without a return it starts 200,
// because ten partitions move away at each restart, and ten come back.
//
// # Moves that cost much
//
// [WithMoves] bounds how many partitions move for balance at a time, and how soon one moves again. [Member.Drain]
// has a member give its partitions up, one after the other, before it leaves:
//
//	err := member.Drain(ctx)
//	cancel() // the context of Run
//
// Operators have [Drain], [Pin] and [Exclude], as "curatorctl partitions drain PATH MEMBER".
//
// # Warm standbys in other zones
//
// Suppose that a member must read much before it can work on a partition. [WithStandbys] has other members do that
// in advance, in another zone if [WithZone] names zones:
//
//	member, err := partition.New(client, path, set, partition.WithZone(rack),
//		partition.WithStandbys(1, func(ctx context.Context, name string) error {
//			return replicas.Follow(ctx, name) // returns when it has caught up, and follows until ctx ends
//		}))
//
// When the owner goes, a prepared standby takes over first. In a planned move the new owner prepares before it asks
// for the partition.
//
// # When a function fails
//
// An error or a panic ends the function of that partition only. The member keeps the partition, and
// calls the function again after a pause that grows from 100 ms to 30 s. Each failure is logged,
// counted, and reported as [Failed]. [WithEndOnError] ends the member instead.
//
// # See the assignment
//
//	assignment, err := member.Assignment(ctx)
//	for _, p := range assignment.Partitions {
//		fmt.Println(p.Name, p.Owner, p.Holder, p.Describe())
//	}
//
// [Member.OnChange] reports the changes of one member. "curatorctl partitions PATH" and
// "curatorctl serve" show the group.
//
// # What is promised
//
//   - A partition has at most one holder, as a lock has. Package locks says what each error
//     policy promises. Use the token against late writes of a holder that was paused.
//   - While a member lives, each partition has a holder soon: a few round trips after a member
//     has left, and a session timeout after a member was killed. [WithReturn] adds its time. A function that does not return
//     delays that, and so does the prepare of [WithStandbys] where no standby is prepared.
//   - Each member has a share of the partitions by its capacity, rounded up or down. Members of
//     equal capacity differ by one at most.
//   - With loads, no member is beyond its part of the load by more than a tenth and the lightest of its
//     partitions. While all members are within a tenth of their parts, nothing moves.
//   - A join or a leave of one of N members of equal capacity moves at most ceil(P/N) of P
//     partitions, and none between members that stay. With different capacities balance may need
//     a few more moves. What a standby has too much after it has taken over moves again.
//
// # What is not promised
//
// The partitions of a member are in no particular order. A member that has left and returns is a
// newcomer, except with [WithReturn]. While the sets of members differ, no name of the group is given up: see [Fixed].
//
// A member whose program is connected but cannot work, for example because its database is
// down, still gets partitions, and keeps those whose function fails. Such a program should end
// its Run.
//
// # What it costs
//
// A member reads only its own share of the plan. A join costs the newcomer one list, a read of
// each member and its share, and about six requests for each partition that it gets. A member that
// gives partitions up reads its share and releases them. All other members make no request.
// recipes/SIZING.md has figures. Loads cost a member one write in [LoadPeriod], and the next member one
// read. One member reads the whole plan in that time. Standbys make the plan longer by their number of names, and
// cost a member one write for all that it has prepared within a second.
//
// # Metrics
//
// A client made WithMeterProvider measures its members. Only framework.WithPathAttribute adds
// the attribute curator.path, the path of the group. Log records always have it.
//
//	instrument                            kind, unit
//	curator.partition.wanted              updowncounter {partition}
//	curator.partition.held                updowncounter {partition}
//	curator.partition.overdue             updowncounter {partition}
//	curator.partition.moves               counter {partition}
//	curator.partition.failures            counter {failure}
//	curator.partition.takeover.duration   histogram s
//
// Wanted counts the partitions that the plan gives to this process, and held the partitions that
// it has. Moves counts the partitions that plans of this process have taken from a member that
// stays. Failures counts the errors and panics of functions. A takeover lasts from the plan until this process has the partition. The locks of the
// partitions have the metrics of package locks, with the recipe name "partition".
//
// # Coming from kazoo
//
// MIGRATING.md has a section on SetPartitioner.
package partition
