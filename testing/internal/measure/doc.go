// SPDX-License-Identifier: Apache-2.0

// Command measure prints the tables of framework/OPTIONS.md: which calls take which options.
//
//	go run ./testing/internal/measure ./framework ./recipes/locks
//
// Its tests check the documents: links, commands, names, tables, and that each program in a
// document is one that a test runs.
package main
