// SPDX-License-Identifier: Apache-2.0

// Command measure prints the tables of framework/OPTIONS.md: which calls take which options.
//
//	go -C testing/internal run ./measure github.com/gocurator/curator/framework github.com/gocurator/curator/recipes/locks
//
// Its tests hold the circles of files of each package to a table. They check the documents: links, commands, names, tables, and that each program in a
// document is one that a test runs.
package main
