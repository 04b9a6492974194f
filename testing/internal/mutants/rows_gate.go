// SPDX-License-Identifier: Apache-2.0

package main

// gateRows are the mutants of what a client knows about its own nodes in the queue of a lock, and of what its
// acquisitions conclude from it.
var gateRows = []row{
	{
		name: "neighbour-in-another-folder", breaks: oneHolder,
		in:     "recipes/locks.(*place).follows",
		change: always("2"),
		test:   "^TestGateOfAFolderThatIsMadeAgain$",
	},
	{
		name: "release-on-a-silent-link", breaks: oneHolder,
		in:     "recipes/locks.(*acquisition).isProof",
		change: always("proofAge"),
		test:   "^TestNotAcquiredNoHoldBeginsOnASilentLink$",
	},
	{
		name: "chain-without-a-list", breaks: inOrder,
		in:     "recipes/locks.(*gate).wasListedLately",
		change: always("chainDelay"),
		test:   "^TestGateChainListsOnceASecond$",
	},
}
