// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// String says in a few words what became of the mutant.
func (v verdict) String() string {
	switch {
	case v.err != nil:
		return "ERROR"
	case v.ok():
		return "caught"
	default:
		return "SURVIVED"
	}
}

// report writes the table of verdicts to w, then the errors of those mutants
// that could not be judged. It returns an error that counts the mutants which
// are not ok, or nil if all are.
func report(w io.Writer, verdicts []verdict) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var failures []error
	lines := []string{"MUTANT\tBREAKS\tCAUGHT BY\tRESULT\n"}
	bad := 0
	for _, v := range verdicts {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s\n", v.mutant.name, v.mutant.breaks, catchers(v.by), v))
		if !v.ok() {
			bad++
		}
		if v.err != nil {
			failures = append(failures, v.err)
		}
	}
	for _, line := range lines {
		if _, err := io.WriteString(table, line); err != nil {
			return fmt.Errorf("mutants: writing the report: %w", err)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("mutants: writing the report: %w", err)
	}
	if bad > 0 {
		failures = append(failures, fmt.Errorf("mutants: %d of %d were not caught", bad, len(verdicts)))
	}
	return errors.Join(failures...)
}

// catchers names the tests that failed, in one cell of the table: a lone subtest
// in full, several of one test as their number.
func catchers(failed []string) string {
	if len(failed) == 0 {
		return "-"
	}
	var cells []string
	for i := 0; i < len(failed); {
		test, _, _ := strings.Cut(failed[i], "/")
		n := 1
		for i+n < len(failed) && strings.HasPrefix(failed[i+n], test+"/") {
			n++
		}
		if n == 1 {
			cells = append(cells, failed[i])
		} else {
			cells = append(cells, fmt.Sprintf("%s (%d subtests)", test, n))
		}
		i += n
	}
	return strings.Join(cells, ", ")
}
