// Command mutants breaks the product on purpose and shows that a test notices.
//
// A test of a safety property is worth what it catches. Each row of the tables in the
// rows_ files is one way to break one property: a declaration, some code in it, the code
// that replaces it, and the test that must fail then. The command applies the rows and
// reports which test caught each of them:
//
//	go run ./testing/internal/mutants                 # every mutant, as often as its row says: once, or 20 times
//	go run ./testing/internal/mutants -run mutex -n 20  # mutants whose name matches, 20 times each
//	go run ./testing/internal/mutants -p 1            # one at a time, and not as many as there are processors
//	go run ./testing/internal/mutants -list           # names and properties, nothing is run
//
// # What counts
//
// First the named test runs on the unchanged code. It must match at least one test, at
// least one of them must pass rather than skip, and none may fail: a test that always
// fails would catch every mutant. This baseline runs once for each distinct package, test
// and set of flags, and is printed.
//
// Then the tests are compiled once with the mutant, and the same test runs as often as the
// row or -n says, in a new process each time. A mutant is caught when the test fails: by an
// assertion, a panic, the timeout of the tests, or a check at the end of TestMain. A mutant
// that does not compile proves nothing and is an error, as is a mutant that runs no test.
// go vet does not run, so it cannot stand in for a test.
//
// Races are a matter of chance, so the mutants of the most important properties are tried
// 20 times. The command exits with status 0 only if each mutant was caught in at least
// 95 % of its tries, with status 1 if a mutant was not caught or could not be judged, and
// with status 2 if the command line is wrong.
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
