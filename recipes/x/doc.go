// SPDX-License-Identifier: Apache-2.0

// Package x is the folder of a module of recipes that Apache Curator does not have. It has no
// code itself:
//
//	partition    work divided among the members of a group
//	schedule     jobs on a schedule, each tick once in the fleet
//	slots        a small number for each live process
//	txn          optimistic transactions over several znodes
//
// The module is experimental. It has versions of its own, and each of them may change exported
// names and the layout of znodes. A version is tested with the version of the main module that
// its go.mod requires. With a newer main module, use the newest version of this one:
//
//	go get github.com/gocurator/curator/recipes/x@latest
package x
