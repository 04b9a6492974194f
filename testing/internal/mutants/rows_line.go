// SPDX-License-Identifier: Apache-2.0

package main

// lineRows are the mutants of what a client knows about the queue of a lock, and of what its
// acquisitions conclude from it.
var lineRows = []row{
	{
		name: "neighbour-in-another-folder", breaks: oneHolder,
		in:     "recipes/locks/internal/line.(*Line).isNeighbour",
		change: always("2"),
		test:   "^TestNeighbour$",
	},
	{
		name: "older-list-learned", breaks: inOrder,
		in:     "recipes/locks/internal/line.(*Line).learn",
		change: drop("horizon", "return"),
		test:   "^TestNeighbourOfAnOlderList$",
	},
	{
		name: "horizon-of-another-history", breaks: oneHolder,
		in:     "recipes/locks/internal/line.(*Line).heed",
		change: drop("forget()"),
		test:   "^TestNeighbour$/in_another_history",
	},
	{
		name: "place-above-the-horizon", breaks: oneHolder,
		in:     "recipes/locks/internal/line.(*Place).Before",
		change: always("czxid"),
		test:   "^TestNeighbour$",
	},
	{
		name: "downgraded-reader-as-a-new-number", breaks: oneHolder,
		in:     "recipes/locks/internal/line.(*Line).advance",
		change: never("moved"),
		test:   "^TestNeighbour$/with_a_number_that_is_not_its_own",
	},
	{
		name: "release-on-a-silent-link", breaks: oneHolder,
		in:     "recipes/locks.(*member).leave",
		change: never("heardLately()"),
		test:   "^TestNotAcquiredNoHoldBeginsOnASilentLink$",
	},
	{
		name: "place-of-a-writer-taken-unseen", breaks: oneHolder,
		in:     "recipes/locks/internal/line.(*Line).Left",
		change: never("Shrinks"),
		pkg:    "recipes/locks",
		test:   "^TestReadWriteLockNoWriterGetsInBehindItsOwnReader$",
	},
}
