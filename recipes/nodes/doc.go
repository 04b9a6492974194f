// SPDX-License-Identifier: Apache-2.0

// Package nodes keeps znodes at the server for as long as a process wants them
// there: Apache Curator's PersistentNode, PersistentTtlNode and GroupMember.
//
// # Keep a znode
//
//	node, err := nodes.NewPersistentNode(client, "/workers/a", framework.Ephemeral, data)
//	if err != nil {
//		return err
//	}
//	if err := node.Start(); err != nil {
//		return err
//	}
//	defer node.Close()
//	if err := node.WaitForInitialCreate(ctx); err != nil { // may the client create it?
//		return err
//	}
//	err = node.SetData(ctx, newer)
//
// [PersistentNode.OnChange] reports each disappearance, each creation and each
// failure. [PersistentNode.Err] says what is wrong at this moment.
//
// # Belong to a group
//
//	member, err := nodes.NewGroupMember(client, "/workers", hostname, data)
//	err = member.Start()
//	defer member.Close()
//	for id, data := range member.Members() { ... } // sends nothing
//
// # Outlive a session
//
// A [PersistentTtlNode] stands while any process touches it, however many
// sessions that takes, and for a time to live after the last one stopped.
//
// # What is promised
//
//   - A znode that was deleted, by hand or with its session, is created again
//     under the same name, in every mode: a sequential znode keeps its number, a
//     protected one its UUID.
//   - It is created with the newest data.
//   - An ephemeral znode belongs to the session of the client. One that is left
//     over from an earlier session, of this process or the one before it, is
//     replaced in one transaction.
//   - A znode that another client has put in its place is left alone,
//     and reported as [ErrTaken]. When it goes, this one comes back.
//   - What the server refuses for a reason that does not pass by itself, such as a
//     missing permission, is reported and not repeated until SetData or the next
//     reconnect.
//   - After Close there is no znode, watch or goroutine, however soon Close comes
//     after Start.
//
// # Metrics
//
// A client made WithMeterProvider measures its nodes, also the ones inside
// [PersistentTtlNode], [GroupMember] and package discovery. Only
// [framework.WithPathAttribute] adds the attribute curator.path, the path that
// the node was made with. Log records always have it.
//
//	instrument                        kind, unit
//	curator.nodes.kept                updowncounter {node}
//	curator.nodes.standing            updowncounter {node}
//	curator.nodes.recreations         counter {creation}
//
// Kept are the nodes from Start to the end of Close, standing those whose znode
// the server had when it was last asked: the difference is what is missing. A
// recreation is the return of a znode after it was deleted or its session had
// ended. The instruments exist from the start.
//
// # What is not promised
//
// Between a deletion and the next creation there is a moment without the znode,
// a round trip and a half long. While the client is cut off its session may end
// and the znode with it, until the client is back.
//
// # Coming from Curator
//
//   - getListenable().nodeCreated is a [Change] with Present; disappearances and
//     errors are reported as well.
//   - setData returns when the server has the data, and may come before the first
//     creation.
//   - An unprotected sequential znode gets its number from a protected one, and takes
//     its place in one transaction, so a lost reply leaves no second znode.
//   - PersistentTtlNode has no executor, and its factor is two.
//   - GroupMember.getCurrentMembers is [GroupMember.Members].
package nodes
