// SPDX-License-Identifier: Apache-2.0

// Package line keeps the order of the contenders in a folder, with as few lists of the
// folder as possible. It knows names, sequence numbers and transactions. It knows no locks.
//
// # The horizon
//
// A [Line] is what one client knows about one folder. Its invariant is the horizon, a
// transaction h: each contender that was created up to h, and may still exist, is among the
// names of the line.
//
// So a contender that was created up to the horizon can decide about its turn without a
// list. All contenders that were created before it are among the names. All later contenders
// have greater numbers and stand behind it, because a server numbers the children of a
// folder in the order of their creation.
//
// The horizon has two sources.
//
//   - A list. It shows the folder as of its last change, whose transaction is the Pzxid of
//     the folder. It does not matter which caller sent the list, or when. A list that is
//     older than the horizon says nothing new. A contender whose name a newer list lacks has
//     left. If it is our own, our node is gone.
//   - A neighbour. Let m be the greatest number up to the horizon. Then the node with number
//     m+1 moves the horizon to its own creation, without a list, because the server created
//     no sequential node between the two.
//
// The second source needs the folder to be the same folder, since numbers begin at 0 again
// after a folder was deleted and created. (The server deletes an empty container.) In a new
// folder, the number m+1 takes the deletion, the creation, and the children 0 to m, each in
// a transaction of its own. So if fewer transactions lie between the horizon and the new
// node, the folder is the same. The difference of the two transaction numbers is an upper
// bound for their count, because each transaction has a greater number than the one before
// it, even under another leader. This assumes that no client creates several contenders in
// one transaction.
//
// Transactions compare within one history of the servers only; see
// [github.com/gocurator/curator/framework.Framework.History]. A new history takes the
// horizon away, and the next list brings another. The list also shows which nodes of an older
// history are still there.
//
// # Places that are taken
//
// A newcomer may take the place of a contender, with its number, before that contender leaves;
// see [Shrinker]. It is the one newcomer that stands before contenders that are there already. A
// line may not know it, even if it was created up to the horizon. So the line keeps the name of a
// contender whose place may be taken, until a list lacks that name. Such a list shows the
// newcomer. Until then the name keeps out whom the newcomer would keep out. No neighbour moves the
// horizon past the newcomer, because the server counts it like each child.
//
// # A superset is safe
//
// Contenders may have left without the line knowing. The name of such a contender costs a
// watch, which fires at once because the node is missing. It admits no contender too early.
// So a lost connection, a late event and a late list cost requests, and never the order.
package line
