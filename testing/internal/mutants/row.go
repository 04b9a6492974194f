// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// row is one defect of the table and the test that must notice it.
type row struct {
	name   string    // unique in the table, in kebab case
	breaks invariant // the promise that the defect breaks
	in     string    // the function that is changed: its folder and its name, as "recipes/fence.(*Register).accept"
	change change
	pkg    string   // the folder of the package to test; "" if it is that of the function
	test   string   // which of its tests to run: go test's -run
	flags  []string // further flags of the test, not of its build, as "-short" or "-timeout=30s"
}

// invariant is a row of the table of invariants in ARCHITECTURE.md.
type invariant string

// function returns the folder and the name of the function that r changes.
func (r row) function() (folder, name string) {
	at := strings.LastIndex(r.in, "/") + 1
	base, name, _ := strings.Cut(r.in[at:], ".")
	return r.in[:at] + base, name
}

// tested returns the folder of the package whose test r names.
func (r row) tested() string {
	if r.pkg != "" {
		return r.pkg
	}
	folder, _ := r.function()
	return folder
}

// mutant returns the mutant that r describes. It only reads the tree below root. The error
// says why r does not fit the tree.
func (r row) mutant(root string) (mutant, error) {
	folder, name := r.function()
	f, err := findFunction(root, folder, name)
	if err != nil {
		return mutant{}, err
	}
	changed, err := r.change.apply(f)
	if err != nil {
		return mutant{}, err
	}
	return mutant{
		name: r.name, breaks: string(r.breaks), file: f.file, changed: changed,
		pkg: r.tested(), test: r.test, flags: r.flags,
	}, nil
}

// validate reports each row of the table that is incomplete or has the name of an
// earlier one. It does not look at the tree.
func validate(rows []row) error {
	var problems []error
	seen := make(map[string]bool, len(rows))
	for i, r := range rows {
		if seen[r.name] {
			problems = append(problems, fmt.Errorf("mutants: row %d: the name %q is taken by an earlier row", i, r.name))
		}
		seen[r.name] = true
		for _, problem := range r.problems() {
			problems = append(problems, fmt.Errorf("mutants: row %d (%s): %s", i, r.name, problem))
		}
	}
	return errors.Join(problems...)
}

// problems lists what is wrong with the fields of r.
func (r row) problems() []string {
	var list []string
	for _, field := range []struct{ name, value string }{
		{"name", r.name}, {"breaks", string(r.breaks)}, {"change", r.change.what}, {"test", r.test},
	} {
		if strings.TrimSpace(field.value) == "" {
			list = append(list, field.name+" is empty")
		}
	}
	folder, name := r.function()
	if name == "" || !filepath.IsLocal(filepath.FromSlash(folder)) {
		list = append(list, fmt.Sprintf("in is %q, expected a folder below the module root, a dot and a function", r.in))
	}
	if !filepath.IsLocal(filepath.FromSlash(r.tested())) || strings.Contains(r.tested(), "...") {
		list = append(list, fmt.Sprintf("pkg is %q, expected the folder of one package", r.pkg))
	}
	if _, err := regexp.Compile(r.test); err != nil {
		list = append(list, fmt.Sprintf("test is not a regular expression: %v", err))
	}
	return list
}

// choose returns the rows whose name matches pattern, in the order of the table. A pattern
// that matches no row is an error: a run of nothing shows nothing.
func choose(rows []row, pattern string) ([]row, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("mutants: -run: %w", err)
	}
	chosen := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !re.MatchString(r.name) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("mutants: -run %q matches none of the %d mutants", pattern, len(rows))
	}
	return chosen, nil
}
