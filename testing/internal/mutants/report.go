// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
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
	var page strings.Builder // which cannot fail
	table := tabwriter.NewWriter(&page, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "MUTANT\tBREAKS\tCAUGHT BY\tRESULT")
	var failures []error
	bad := 0
	for _, v := range verdicts {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", v.mutant.name, v.mutant.breaks, catchers(v.by), v)
		if !v.ok() {
			bad++
		}
		if v.err != nil {
			failures = append(failures, v.err)
		}
	}
	_ = table.Flush()
	if _, err := io.WriteString(w, page.String()); err != nil {
		return fmt.Errorf("mutants: writing the report: %w", err)
	}
	if bad > 0 {
		failures = append(failures, fmt.Errorf("mutants: %d of %d were not caught", bad, len(verdicts)))
	}
	return errors.Join(failures...)
}

// catchers names the tests that failed, without their subtests.
func catchers(failed []string) string {
	names := make([]string, len(failed))
	for i, name := range failed {
		names[i], _, _ = strings.Cut(name, "/")
	}
	return cmp.Or(strings.Join(slices.Compact(names), ", "), "-")
}
