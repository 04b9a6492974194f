// SPDX-License-Identifier: Apache-2.0

package seeds

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

func TestSeedsParse(t *testing.T) {
	n, err := parse("")
	require.NoError(t, err)
	require.EqualValues(t, fixed, n)
	n = must.Get(parse("17"))(t)
	require.EqualValues(t, 17, n)
	first := must.Get(parse("random"))(t)
	require.NotEqual(t, first, must.Get(parse("random"))(t))
	for _, bad := range []string{"0", "-1", "rapid"} {
		_, err = parse(bad)
		require.ErrorContains(t, err, "expected random or a number from 1", bad)
	}
}

func TestNewDependsOnTheNameAlone(t *testing.T) {
	first, again := New(t).Uint64(), New(t).Uint64()
	require.Equal(t, first, again)
	t.Run("another", func(t *testing.T) { require.NotEqual(t, first, New(t).Uint64()) })
}

// TestSeedsAreFixed reads the tests of this module: a package that uses rapid calls
// Rapid in its TestMain, and no test makes a seed of its own at random.
func TestSeedsAreFixed(t *testing.T) {
	const root = "../../.."
	properties, fixes := make(map[string]bool), make(map[string]bool) // by folder
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() != ".." && strings.HasPrefix(entry.Name(), ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "seeds" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := filepath.Dir(path)
		if imports(file, "pgregory.net/rapid") {
			properties[folder] = true
		}
		if calls(file, "seeds", "Rapid") {
			fixes[folder] = true
		}
		for _, draw := range []string{"Uint64", "Int64", "Uint32", "Int"} {
			require.False(t, imports(file, "math/rand/v2") && calls(file, "rand", draw), "%s: rand.%s as a seed, expected seeds.New", path, draw)
		}
		return nil
	}))
	require.NotEmpty(t, properties)
	require.Equal(t, properties, fixes, "folders of tests that use rapid, and those whose TestMain calls seeds.Rapid")
}

func imports(file *ast.File, path string) bool {
	for _, spec := range file.Imports {
		if spec.Path.Value == strconv.Quote(path) {
			return true
		}
	}
	return false
}

// calls reports whether the file calls a function of a package.
func calls(file *ast.File, pkg, function string) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == function {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg {
					found = true
				}
			}
		}
		return !found
	})
	return found
}
