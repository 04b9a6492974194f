// SPDX-License-Identifier: Apache-2.0

// Package seeds gives tests their random numbers. The seeds are fixed, so that a test
// does today what it did yesterday. With CURATOR_SEED=random each run draws a seed,
// which a failing test logs; CURATOR_SEED=n repeats that run.
//
// What a random seed finds is kept as a case of the test that failed: in a table beside
// it, or, for a property of rapid, in the file that rapid writes below testdata.
package seeds

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

const (
	seedEnv   = "CURATOR_SEED"   // a number, or "random"
	checksEnv = "CURATOR_CHECKS" // cases of each property, instead of the usual number
)

// fixed is the seed of runs that are not asked for another one.
const fixed = 1

// seed is that of this run.
var seed = sync.OnceValue(func() uint64 {
	n, err := parse(os.Getenv(seedEnv))
	if err != nil {
		panic(err) // a run with another seed would prove nothing
	}
	return n
})

// parse reads the value of CURATOR_SEED.
func parse(value string) (uint64, error) {
	switch value {
	case "":
		return fixed, nil
	case "random":
		return max(rand.Uint64(), 1), nil
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("seeds: %s=%q, expected random or a number from 1", seedEnv, value)
	}
	return n, nil
}

// Long reports whether the run has time, as "make test-long" has: whether CURATOR_CHECKS
// asks for a number of cases. Tests of many cases then try all of them.
func Long() bool { return os.Getenv(checksEnv) != "" }

// New returns the random numbers of a test. They depend on the test's name, so that
// the order in which tests run changes nothing.
func New(tb testing.TB) *rand.Rand {
	tb.Helper()
	tb.Logf("%s=%d", seedEnv, seed())
	name := fnv.New64a()
	_, _ = name.Write([]byte(tb.Name())) // it never fails
	return rand.New(rand.NewPCG(seed(), name.Sum64()))
}

// Rapid sets the seed of rapid's properties and how many cases each has, a fifth with
// -short. TestMain calls it first; flags of the command line overrule it.
func Rapid(checks int) {
	ours := map[string]string{
		"rapid.seed": strconv.FormatUint(seed(), 10), "rapid.checks": strconv.Itoa(checks), "rapid.shrinktime": "10s",
	}
	if n := os.Getenv(checksEnv); n != "" {
		ours["rapid.checks"] = n
	}
	for name, value := range ours {
		if err := flag.Set(name, value); err != nil {
			panic(fmt.Errorf("seeds: %w", err)) // CURATOR_CHECKS is no number, or rapid has no such flag any more
		}
	}
}
