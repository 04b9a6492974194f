// SPDX-License-Identifier: Apache-2.0

// Package line keeps the order of the contenders in a folder, with as few lists of the
// folder as possible. It knows names, sequence numbers and transactions. It knows no locks.
//
// # The horizon
//
// A [Line] is what one client knows about one folder. Its invariant is the horizon, a transaction
// h. Each contender that was created up to h, and may still exist, is among the names of the line.
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
//   - A neighbour. Let n be the newest number up to the horizon that the server has given to a node
//     of this client. Then our node with the number n+1 moves the horizon to its own creation,
//     without a list. The server created no node between the two.
//
// # What a number proves
//
// The server counts each child of a folder, whatever its mode, and names a sequential node for the
// count before it. So a number that the server has given is the count at a transaction. A name
// proves nothing, because a node can be created by name. The count may not have reached its number,
// or have passed it. If the count reaches the number later, the server gives it once more. The line
// knows which numbers the server has given, because they are those of our own nodes that have not
// taken the place of another node. It takes no number from the name of another client's node.
//
// The Stat of the folder has a count, too: half of Cversion and NumChildren together. The line does
// not use it. On ClickHouse Keeper a write to a child raises Cversion as well, so that the half is
// too high. Other clients' creations may then bring the count there, and our node would take that
// number for the proof that there were none. Our own last number plus one is never above the count.
// If it is below, no later node of ours gets that number, which costs a list.
//
// The number must be of the same folder, since numbers begin at 0 again after a folder was deleted
// and created. (The server deletes an empty container.) To come to the number n+1, a new folder
// takes the deletion, the creation, and the children 0 to n. Each is a transaction of its own. So
// if fewer transactions lie between our two nodes, the folder is the same. The difference of the
// two transaction numbers is an upper bound for their count. Each transaction has a greater number
// than the one before it, even under another leader.
//
// # Connections
//
// Transactions compare within one history of the servers only; see
// [github.com/gocurator/curator/framework.Framework.History]. A new history takes the horizon away,
// and the next list brings another. The list also shows which nodes of an older history are still
// there. An answer of an older history is dropped.
//
// Restored servers may give no sign, but each connection is to one world. So a place is known only
// if the server has shown its node over the connection over which the horizon was learned, by the
// creation or by a list. A neighbour counts over that connection only, and a list over another
// connection takes the last number away, unless it shows the node. This costs a list for each line
// in use and each reconnect. A list that is older than the horizon is dropped if it may have been sent
// before the horizon was learned. A list that was sent later shows what there is now, whatever its
// transaction: servers may leave the transaction of the folder behind. Suppose that a node of ours
// had joined the line before a list was sent. If the list lacks the node, it is gone.
//
// # What is assumed
//
//   - The server's count of children does not fall while the folder exists. A name that it has
//     given to a protected node does not come again.
//   - No transaction creates several children in a folder that was deleted after our last node in it.
//     Such a folder may come to our next number in fewer transactions than the line counts on. If it
//     does, the line overlooks these children, and there may be two holders.
//   - Another client may create a node by name, with a number that is not greater than ours, after
//     a list has shown ours. That node does not keep us out. Curator's contenders would wait for
//     it.
//   - Restored servers that give no sign can take away the node of a holder or a waiter as a deletion by
//     hand can. The client hears of it after it has reconnected, when it watches the node again.
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
