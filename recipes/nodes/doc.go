// SPDX-License-Identifier: Apache-2.0

// Package nodes keeps znodes at the server for as long as a process wants them. It
// has Apache Curator's PersistentNode, PersistentTtlNode and GroupMember.
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
// A [PersistentTtlNode] exists while any process touches it, over any number of
// sessions. After the last process has stopped it exists for one more time to live.
//
// # What is promised
//
//   - A znode that was deleted, by hand or with its session, is created again under
//     the same name, in every mode. A sequential znode keeps its number, and a
//     protected znode keeps its UUID.
//   - It is created with the newest data.
//   - An ephemeral znode belongs to the session of the client. If an ephemeral znode
//     of an earlier session is left, of this process or of the one before it, the node
//     replaces it in one transaction.
//   - If another client has created a znode in its place, the node leaves that znode
//     alone and reports [ErrTaken]. Close leaves it alone, too. When that znode goes,
//     the node creates its own. A znode of another kind is not replaced: a persistent
//     one in the place of an ephemeral one, or an ephemeral one in the place of a
//     persistent one. The exception is a persistent znode with the data of an ephemeral
//     node, which a restore of the tree has left: data that is not empty, and the same to
//     the last byte, shows that it is the node's.
//   - If the server refuses a request for a reason that does not pass by itself,
//     such as a missing permission, the node reports it. It repeats the request only
//     after SetData or the next reconnect.
//   - After Close there is no znode, watch or goroutine, however soon Close comes
//     after Start.
//
// # Metrics
//
// A client made WithMeterProvider measures its nodes, including the nodes inside
// [PersistentTtlNode], [GroupMember] and package discovery. Only
// [framework.WithPathAttribute] adds the attribute curator.path, the path that the
// node was made with. Log records always have it.
//
//	instrument                        kind, unit
//	curator.nodes.kept                updowncounter {node}
//	curator.nodes.standing            updowncounter {node}
//	curator.nodes.recreations         counter {creation}
//
// A node is kept from Start to the end of Close. It is standing if the server had
// its znode when the node last asked. The difference of the two is the number of
// missing znodes. A recreation is the return of a znode after it was deleted or its
// session had ended. The instruments exist from the start.
//
// # What is not promised
//
// Between a deletion and the next creation the znode is missing for about a round
// trip and a half. While the client is cut off, its session may end, and the znode
// with it. The znode is then missing until the client is back.
//
// The server does not say who has created a znode, only whose session an ephemeral
// one belongs to. So before it has first stood, an ephemeral node takes an ephemeral
// znode of another session for its predecessor's: give each live process a name of
// its own. A node of a persistent mode takes a persistent znode at its path for its
// own, as Curator does. It writes its data there, and Close deletes it.
//
// # Coming from Curator
//
//   - Curator writes its data into a znode of another kind, and deletes it at close.
//     Here that is [ErrTaken].
//   - getListenable().nodeCreated is a [Change] with Present. Disappearances and
//     errors are reported as well.
//   - setData returns when the server has the data, and may come before the first
//     creation.
//   - An unprotected sequential znode gets its number from a protected one, and takes
//     its place in one transaction, so a lost reply leaves no second znode.
//   - PersistentTtlNode has no executor, and its factor is two.
//   - GroupMember.getCurrentMembers is [GroupMember.Members].
package nodes
