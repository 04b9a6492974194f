// Package line knows which contenders of a folder are before which, with as few lists of the
// folder as possible. It knows names, sequence numbers and czxids.
//
// The sequence number is the clock. A server numbers the children of a folder in the order
// in which it creates them, and deletions do not count. So "all contenders up to number m
// are known" is one fact, the horizon m: each contender up to m that may still exist is
// in the line. It says all that lists, their ages and their senders could say.
//
// The horizon has three sources:
//
//   - A list. A list is a snapshot. With N the greatest number in it, it knows all
//     contenders up to N, no matter which call has sent it and when. Those up to N that it lacks have left.
//   - The number 0. No contender is before the first child of a folder.
//   - A neighbour. A node that was created with number m+1 moves the horizon to m+1, if it
//     is in the same folder. The folder may have been deleted and created again: a container
//     is, when it is empty. To reach m+1 in a new folder takes the deletion, the creation
//     and m+1 children, each a transaction of its own. So a node that follows another one,
//     the evidence, by fewer transactions is in the same folder. This assumes that no client
//     creates several lock nodes in one transaction. Both must be in one epoch, as a new
//     epoch begins to count transactions again.
//
// A number that the horizon covers already, with a name that is not known, is one of a new
// folder: all that was known is dropped. Lists that were sent before such a change, and are
// learned after it, are dropped too.
//
// A superset is safe. A contender that has left unnoticed costs a watch that fires at once,
// and never lets another one in.
package line
