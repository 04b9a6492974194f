package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one deliberate defect and the test that has to notice it.
type mutant struct {
	name     string   // unique in the table
	property string   // the safety property that the defect breaks, in one sentence
	file     string   // the file to change: slashes, relative to the module root
	old      string   // the text to replace, which occurs exactly once in file
	new      string   // what stands there instead
	pkg      string   // the package to test, as "./recipes/locks"
	test     string   // which of its tests to run: go test's -run
	flags    []string // further flags of the test, not of its build, as "-short" or "-timeout=30s"
	tries    int      // how often it is tried unless -n says so, 0 is once
}

// apply returns the text of m's file with the defect in it. It only reads the
// tree below root. The error says why m does not fit the file.
func (m mutant) apply(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, err
	}
	text := string(source)
	if n := strings.Count(text, m.old); n != 1 {
		return nil, fmt.Errorf("the old text occurs %d times in %s, want exactly once: %q", n, m.file, m.old)
	}
	return []byte(strings.Replace(text, m.old, m.new, 1)), nil
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
		{"name", m.name}, {"property", m.property}, {"old", m.old}, {"test", m.test},
	} {
		if strings.TrimSpace(field.value) == "" {
			list = append(list, field.name+" is empty")
		}
	}
	if m.old == m.new {
		list = append(list, "old and new are the same text")
	}
	if !strings.HasSuffix(m.file, ".go") || !filepath.IsLocal(filepath.FromSlash(m.file)) {
		list = append(list, fmt.Sprintf("file is %q, want a .go file below the module root", m.file))
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
