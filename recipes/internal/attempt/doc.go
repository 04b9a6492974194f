// SPDX-License-Identifier: Apache-2.0

// Package attempt has functions that recipes share. They make a write that depends on a read,
// report why a wait has ended, and leave nothing behind.
//
// # Late writes
//
// A deletion or an overwrite that is sent late may meet another znode of the same name, and
// ZooKeeper has no condition on a czxid. So each such write of a recipe is protected:
//
//   - Nodes of locks, leases, conditions and heartbeats have a UUID in their names, which never
//     come again.
//   - A locked item of a queue has an ephemeral child with the UUID of its consumer. The
//     transaction that deletes or sets the item also deletes this child.
//   - A write on condition of a version is bound to the history of its read; see
//     [framework.Framework.InHistory]. So are the closing of a double barrier, and the deletion
//     of an item without a lock path.
//   - A node that is kept, a member and an instance are deleted only if the session that owns
//     them is the one that was read.
//   - Purges, migrations and plans check their lock, or the version of the plan, within the
//     transaction.
//
// Nothing protects a write that the caller asks for by name: Guaranteed and InBackground
// deletes, and RemoveBarrier.
//
// Two gaps are left, because no transaction can close them. A consumer without a lock path
// deletes an item right after it has read its Stat. In between, the folder may be cleared and
// used again up to the same number and version. The other gap is in double barriers. A late
// close may hit the next round if it is Curator's, which has no condition, or if the server has
// removed the empty folder and the next round has created it again with the same version.
//
// # Loops in the background
//
// A loop ends with its context and with its client ([Ended]), and goes on after every other
// error that may pass:
//
//   - A connection error reaches a loop only after the retry policy has given up. The loop tries
//     again after a pause of 0.1 to 30 s, or as soon as the outage ends. Consumers of queues pause
//     for a second at most.
//   - No event announces the end of a refusal for now, such as a quota ([RefusedForNow]). The
//     loop asks again after the same pauses.
//   - A missing permission, or data that is too large, concerns one znode. A loop of many znodes
//     leaves the znode out until it changes, and logs that. A loop of one znode waits for a
//     change, a new connection or new data, and shows the error by its Err, its Await or its Run.
//   - A missing folder is created. A missing znode is a state.
//   - A panic of user code is a failure of that code, and is logged.
//
// [Loop] does all of this. It logs the first of several failures, and each failure with another
// reason than the one before.
package attempt
