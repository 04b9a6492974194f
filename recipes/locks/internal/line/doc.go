// SPDX-License-Identifier: Apache-2.0

// Package line knows which contenders in a folder are before which, with as few lists of the
// folder as possible. It knows names, sequence numbers and transactions. It knows no lock.
//
// # The horizon
//
// A [Line] is what one client knows about one folder. It has one invariant, the horizon: a
// transaction h, such that each contender that was created up to h, and may still exist, is
// among the names of the line.
//
// So a contender that was created up to the horizon can decide about its turn without a
// list. All contenders that were created before it are among the names. All later ones got
// greater numbers and stand behind it, as a server numbers the children of a folder in the
// order in which it creates them.
//
// The horizon has two sources.
//
//   - A list. It shows the folder as of its last change, whose transaction is its Pzxid. It
//     does not matter which caller sent it, or when. A list that is older than the horizon
//     says nothing new. A name that a newer list lacks has left. If it is the name of our
//     own node, the node is gone.
//   - A neighbour. Say m is the greatest number up to the horizon. Then the node with number
//     m+1 moves the horizon to its own creation, without a list: the server created no
//     sequential node between the two.
//
// The second source needs the folder to be the same one, since numbers begin at 0 again
// after a folder was deleted and created. A container is deleted when it is empty. To reach
// number m+1 in a new folder takes the deletion, the creation, and the children 0 to m, each
// in a transaction of its own. So the folder is the same one if fewer transactions lie
// between the horizon and the new node. Each transaction has a greater number than the one
// before it, also under another leader of the servers, so the difference of the two numbers
// is an upper bound. This assumes that no client creates several contenders in one
// transaction.
//
// Transactions compare within one history of the servers only; see
// [github.com/gocurator/curator/framework.Framework.History]. A new history takes the
// horizon away, and the next list brings another.
//
// # A superset is safe
//
// The names may have left without our knowing. Such a name costs a watch, which fires at
// once as the node is missing. It lets no contender in too early. So a lost connection, a
// late event and a late list cost requests, and never the order.
package line
