// Command measure prints how the code of this module is built and how it
// reads, one line per package:
//
//	go run ./testing/internal/measure                  # the packages that users import
//	go run ./testing/internal/measure ./recipes/locks  # these packages
//	go run ./testing/internal/measure -words           # which words of the list stand where
//	go run ./testing/internal/measure -options         # the tables of framework/OPTIONS.md
//
// With -words it takes documents in Markdown too. It does not count tests. The
// columns are:
//
//   - files, and cycle: the size of the largest set in which each file refers,
//     directly or through others, to each other file. A reader of one of them has
//     to read all of them.
//   - lines of the median function, of the 90th percentile and of the longest.
//   - comments: lines of comment per 100 lines within function bodies.
//   - words: occurrences of the listed phrases per 1,000 words of comments, see
//     phrases in prose.go.
package main
