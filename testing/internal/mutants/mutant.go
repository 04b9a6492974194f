package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one deliberate defect and the test that has to notice it.
type mutant struct {
	name     string   // unique in the table
	property string   // the safety property that the defect breaks, in one sentence
	dir      string   // the folder of the package to change: slashes, relative to the module root
	in       string   // the declaration to change: a function, a method as "(*T).Method", a type, a constant or a variable
	old      string   // the code to replace, whole tokens that occur exactly once in the declaration
	new      string   // what stands there instead
	pkg      string   // the package to test, as "./recipes/locks"
	test     string   // which of its tests to run: go test's -run
	flags    []string // further flags of the test, not of its build, as "-short" or "-timeout=30s"
	tries    int      // how often it is tried unless -n says so, 0 is once
}

// apply returns where m changes the sources and the changed text of that file.
// It only reads the tree below root. The error says why m does not fit the tree.
func (m mutant) apply(root string) (file string, changed []byte, err error) {
	at, err := m.find(root)
	if err != nil {
		return "", nil, err
	}
	return at.file, slices.Concat(at.source[:at.start], []byte(m.new), at.source[at.end:]), nil
}

// validate reports every row of the table that is incomplete or contradicts
// itself or another row. It does not look at the tree.
func validate(rows []mutant) error {
	var problems []error
	seen := make(map[string]bool, len(rows))
	for i, m := range rows {
		if seen[m.name] {
			problems = append(problems, fmt.Errorf("mutants: row %d: the name %q is taken by an earlier row", i, m.name))
		}
		seen[m.name] = true
		for _, problem := range m.problems() {
			problems = append(problems, fmt.Errorf("mutants: row %d (%s): %s", i, m.name, problem))
		}
	}
	return errors.Join(problems...)
}

// problems lists what is wrong with the fields of m.
func (m mutant) problems() []string {
	var list []string
	for _, field := range []struct{ name, value string }{
		{"name", m.name}, {"property", m.property}, {"in", m.in}, {"old", m.old}, {"test", m.test},
	} {
		if strings.TrimSpace(field.value) == "" {
			list = append(list, field.name+" is empty")
		}
	}
	if m.old == m.new {
		list = append(list, "old and new are the same text")
	}
	if m.dir == "" || !filepath.IsLocal(filepath.FromSlash(m.dir)) {
		list = append(list, fmt.Sprintf("dir is %q, want a folder below the module root", m.dir))
	}
	if !strings.HasPrefix(m.pkg, "./") || strings.Contains(m.pkg, "...") {
		list = append(list, fmt.Sprintf("pkg is %q, want one package as ./path", m.pkg))
	}
	if _, err := regexp.Compile(m.test); err != nil {
		list = append(list, fmt.Sprintf("test is not a regular expression: %v", err))
	}
	return list
}

// choose returns the rows whose name matches pattern, in the order of the
// table. That none does is an error: a run of nothing shows nothing.
func choose(rows []mutant, pattern string) ([]mutant, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("mutants: -run: %w", err)
	}
	var chosen []mutant
	for _, m := range rows {
		if re.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("mutants: -run %q matches none of the %d mutants", pattern, len(rows))
	}
	return chosen, nil
}
