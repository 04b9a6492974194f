// SPDX-License-Identifier: Apache-2.0

// Command mutants breaks the product on purpose and shows that a test notices.
//
// A test of a promise is worth what it catches. Each row of the tables in the rows_ files is
// one way to break one invariant of ARCHITECTURE.md: a function, a change to it, and the test
// that must fail then. The command applies each row once and reports which test caught it:
//
//	go -C testing/internal run ./mutants             # every row
//	go -C testing/internal run ./mutants -run lease  # rows whose name matches
//	go -C testing/internal run ./mutants -p 1        # one at a time, and not as many as there are processors
//
// # What counts
//
// First the named test runs on the unchanged code. It must match at least one test, at
// least one of them must pass rather than skip, and none may fail: a test that always
// fails would catch every mutant. This baseline runs once for each distinct package, test
// and set of flags, and is printed.
//
// Then the tests are compiled with the mutant, and the same test runs in a new process. A
// mutant is caught when the test fails: by an assertion, a panic, the timeout of the tests,
// or a check at the end of TestMain. A mutant that does not compile proves nothing and is an
// error, as is a mutant that runs no test. go vet does not run, so it cannot stand in for a
// test.
//
// The command exits with status 0 only if each mutant was caught, with status 1 if a mutant
// was not caught or could not be judged, and with status 2 if the command line is wrong.
//
// # The tree is never touched
//
// The changed file is written to a temporary directory, and the compiler reads it
// through the -overlay flag. An interrupted run leaves the sources as they were.
//
// # Adding a row
//
// A row is for an invariant of ARCHITECTURE.md, and for a defect in a package that users
// import. There are at most a hundred, so a better row takes the place of another one. This one
// breaks the lease clock, and TestLeaseClock must notice:
//
//	{
//		name: "late-reply-revives-a-lease", breaks: deadline,
//		in:     "framework/internal/conduit.(*leaseClock).renew",
//		change: never("isOver()"),
//		test:   "^TestLeaseClock$",
//	},
//
// The function is named by its folder and its name, and no file. The change says what is done,
// and by which words the program finds where in the syntax tree of the function: "isOver()" is
// a call, "deadline=" an assignment, "deadline" any use. The innermost condition, statement or
// expression that mentions all words is changed. So a row survives another layout, another name
// for a local variable, and a function that moves to another file. mentionsAll has the rules for
// words, and change.go has the changes:
//
//	negate, always, never  a condition
//	boundary               a comparison, so that its limit is one off
//	drop, postpone         a statement
//	become                 an expression, replaced by other code
//	begin                  a function, with other code at its beginning
//
// A test of this package checks every row against the tree: the change must be possible at
// exactly one place, the test must exist, and each invariant must have a row. If the words of a
// row fit two places, add a word of the right one.
//
// # Random changes
//
// With -random n the command makes n changes of its own, drawn by -seed: a condition is negated,
// a statement is left out, or a number is greater by one. It runs the quick tests of the changed
// package after each, and lists the changes that no test has noticed:
//
//	go -C testing/internal run ./mutants -random 50 recipes/fence recipes/x/txn
//
// Without folders it changes the packages that differ from the last commit but one. A survivor
// is a question to a reader and no failure: many a statement serves speed, or a message.
package main
