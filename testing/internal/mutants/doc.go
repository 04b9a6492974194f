// Command mutants breaks the product on purpose and shows that a test notices.
//
// A test of a safety property is worth what it catches. Each row of the table
// in the rows_ files names one way to break one property: a declaration, some
// code in it, the code to put there instead, and the test that has to fail then. The command
// applies the rows and reports which test caught each of them:
//
//	go run ./testing/internal/mutants                 # every mutant, as often as its row says: once, or 20 times
//	go run ./testing/internal/mutants -run mutex -n 20  # mutants whose name matches, 20 times each
//	go run ./testing/internal/mutants -p 1            # one at a time, and not as many as there are processors
//	go run ./testing/internal/mutants -list           # names and properties, nothing is run
//
// # What counts
//
// First the named test runs on the code as it is. It has to match at least one
// test, at least one of them has to pass rather than be skipped, and none may
// fail: a test that fails anyway would catch every mutant. This baseline is run
// once for each distinct package, test and set of flags, and printed.
//
// Then the tests are compiled with the mutant, once, and the same test runs as
// often as it is to be tried, in a process of its own each time. A mutant is
// caught when the test fails: by an assertion, by a panic, by the timeout of the
// tests, or by a check that TestMain makes at the end. A mutant that does not
// compile proves nothing and is an error, as is one with which no test runs. go
// vet is not run, so that it cannot take the place of a test.
//
// Races are a matter of chance, so the mutants of the properties that matter most
// are tried 20 times, and -n repeats all as often as it says. The command exits
// with status 0 only if each mutant was caught in at least 95 % of its tries,
// with status 1 if one was not or could not be judged, and with status 2 if the
// command line is wrong.
//
// # The tree is never touched
//
// The changed file is written to a temporary directory, and the compiler reads it
// through the -overlay flag. An interrupted run leaves the sources as they were.
//
// # Adding a mutant
//
// Append a row to the rows_ file of the package that it breaks. A row names a
// folder and a declaration in it, "(*T).Method" for a method, but no file, and
// the code is compared token by token: a file that moves, a comment or another
// layout breaks no row. The old code has to occur exactly once in the
// declaration. A test of this package checks every row against the tree.
package main
