// Package testnames finds the tests that a folder declares, for tables that name tests: go test
// accepts a name that matches nothing.
package testnames

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// In returns the tests of the package in a folder by their names, without subtests. A folder
// without test files is an error.
func In(folder string) (map[string]*ast.FuncDecl, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("testnames: %s has no test files", folder)
	}
	tests := make(map[string]*ast.FuncDecl)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests[f.Name.Name] = f
			}
		}
	}
	return tests, nil
}
