// Package scenarios checks tables of what the recipes of Curator must get right: each row has a test
// here, and each bug that Curator had also has a mutant that brings it back.
package scenarios

import (
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testnames"
)

// Scenario is something that a recipe must get right.
type Scenario struct {
	Curator string   // where Curator has it: a test as Class.method, or a bug
	What    string   // what it is about; "" if the name in Curator says that
	Tests   []string // the tests that show it here; a test of another package stands after its folder
	Defect  string   // a row of testing/internal/mutants that one of the tests catches; required for a bug
}

// Check checks that the tests of all rows exist, and that each bug has a mutant that one of
// its tests catches. It returns the tests by the names that the rows have.
func Check(t *testing.T, scenarios, bugs []Scenario) map[string]*ast.FuncDecl {
	t.Helper()
	require.NotEmpty(t, scenarios)
	require.NotEmpty(t, bugs)
	rows := mutants(t)
	known, found := make(map[string]map[string]*ast.FuncDecl), make(map[string]*ast.FuncDecl)
	for i, s := range append(scenarios[:len(scenarios):len(scenarios)], bugs...) {
		require.NotEmpty(t, s.Tests, s.Curator)
		var caught []string
		for _, name := range s.Tests {
			folder, test := ".", name
			if at := strings.LastIndex(name, "."); at >= 0 {
				folder, test = name[:at], name[at+1:]
			}
			if known[folder] == nil {
				tests, err := testnames.In(folder)
				require.NoError(t, err)
				known[folder] = tests
			}
			found[name] = known[folder][test]
			require.NotNil(t, found[name], "%s: no test %s", s.Curator, name)
			caught = append(caught, test)
		}
		if i < len(scenarios) && s.Defect == "" {
			continue
		}
		requireCaught(t, rows, s, caught)
	}
	return found
}

// requireCaught checks that the mutant of a scenario exists, and that one of the tests catches it.
func requireCaught(t *testing.T, rows string, s Scenario, tests []string) {
	t.Helper()
	_, row, exists := strings.Cut(rows, `"`+s.Defect+`"`)
	require.True(t, exists && s.Defect != "", "%s %s: no mutant %q", s.Curator, s.What, s.Defect)
	row, _, _ = strings.Cut(row, "\n	},\n")
	for _, test := range tests {
		if strings.Contains(row, "^"+test+"$") {
			return
		}
	}
	require.Fail(t, "no test catches the mutant", "%s %s: %s is caught by none of %v", s.Curator, s.What, s.Defect, tests)
}

// mutants returns the source of the mutants.
func mutants(t *testing.T) string {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	const folder = "testing/internal/mutants"
	for {
		if _, err := os.Stat(filepath.Join(root, folder)); err == nil {
			break
		}
		require.NotEqual(t, root, filepath.Dir(root), "the folder is below that of the module")
		root = filepath.Dir(root)
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "rows_*.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
