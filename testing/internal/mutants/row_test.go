// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// mostRows is how many rows the table may have. A better row takes the place of another one.
const mostRows = 100

func TestRowTableFitsTheTree(t *testing.T) {
	require.NoError(t, validate(table))
	require.LessOrEqual(t, len(table), mostRows)
	root := treeRoot(t)
	for _, r := range table {
		if _, err := r.mutant(root); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
}

// TestRowTableNamesTests: go test is content with a pattern that matches no test.
func TestRowTableNamesTests(t *testing.T) {
	root := treeRoot(t)
	tests := make(map[string][]string) // by package
	for _, r := range table {
		if tests[r.tested()] == nil {
			tests[r.tested()] = testsIn(t, filepath.Join(root, r.tested()))
		}
		top, _, _ := strings.Cut(r.test, "/")
		named := slices.ContainsFunc(tests[r.tested()], regexp.MustCompile(top).MatchString)
		require.True(t, named, "%s: no test of %s matches %s", r.name, r.tested(), r.test)
	}
}

// TestRowEveryInvariantHasAMutant, except those of the test tools.
func TestRowEveryInvariantHasAMutant(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join(treeRoot(t), "ARCHITECTURE.md")))(t)
	_, section, found := strings.Cut(string(text), "\n## Invariants\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var invariants []string
	for _, line := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(section, -1)[1:] {
		invariants = append(invariants, line[1])
	}
	broken := make(map[string]bool)
	for _, r := range table {
		require.Contains(t, invariants, string(r.breaks), "%s: ARCHITECTURE.md has no such invariant", r.name)
		broken[string(r.breaks)] = true
	}
	for _, i := range invariants {
		ofTools := strings.HasPrefix(i, "The embedded server ") || strings.HasPrefix(i, "Each assumption about go-zookeeper ")
		require.True(t, broken[i] || ofTools, "no mutant breaks this: %s", i)
	}
}

func TestRowValidateNamesTheField(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*row)
		want  string
	}{
		"no name":          {func(r *row) { r.name = "" }, "name is empty"},
		"no invariant":     {func(r *row) { r.breaks = " " }, "breaks is empty"},
		"no change":        {func(r *row) { r.change = change{} }, "change is empty"},
		"no test":          {func(r *row) { r.test = "" }, "test is empty"},
		"bad test":         {func(r *row) { r.test = "Test(" }, "test is not a regular expression"},
		"nowhere":          {func(r *row) { r.in = "" }, `in is "", expected a folder`},
		"no function":      {func(r *row) { r.in = "recipes/locks" }, `in is "recipes/locks", expected a folder`},
		"folder elsewhere": {func(r *row) { r.in = "../house.Open" }, `in is "../house.Open", expected a folder`},
		"many packages":    {func(r *row) { r.pkg = "recipes/..." }, `pkg is "recipes/...", expected the folder of one package`},
	} {
		t.Run(name, func(t *testing.T) {
			r := row{name: "good", breaks: oneHolder, in: "recipes/locks.Do", change: never("x"), test: "^TestStrict$"}
			require.NoError(t, validate([]row{r}))
			c.spoil(&r)
			require.ErrorContains(t, validate([]row{r}), c.want)
		})
	}
}

func TestRowValidateWantsDistinctNames(t *testing.T) {
	r := row{name: "twin", breaks: oneHolder, in: "recipes/locks.Do", change: never("x"), test: "^TestStrict$"}
	require.ErrorContains(t, validate([]row{r, r}), `row 1: the name "twin" is taken`)
}

// treeRoot returns the folder of the module.
func treeRoot(t *testing.T) string {
	t.Helper()
	root := must.Get(moduleRoot(t.Context()))(t)
	return root
}

// testsIn returns the names of the tests of the package in a folder.
func testsIn(t *testing.T, folder string) []string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(folder, "*_test.go")))(t)
	var names []string
	for _, name := range files {
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	require.NotEmpty(t, names, "%s has no tests", folder)
	return names
}
