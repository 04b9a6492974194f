package locks_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// withoutAFault are the exported calls that are in no row of the table of
// TestEveryFaultAtEveryRequest, and why.
var withoutAFault = map[string]string{
	"FixedLeases.MaxLeases":                      "it makes no request",
	"StandardLockInternalsDriver.CreatesTheLock": "every acquisition makes it",
	"ReadLock.Do":                                "it is Do, as that of InterProcessMutex is",
	"WriteLock.Do":                               "it is Do, as that of InterProcessMutex is",
	"InterProcessSemaphore.Do":                   "it is Do, as that of InterProcessMutex is",
	"InterProcessSemaphoreV2.Do":                 "it is Do, as that of InterProcessMutex is",
	"InterProcessSemaphoreMutex.Do":              "it is Do, as that of InterProcessMutex is",
}

// TestEveryCallIsFaulted: whatever the package exports that takes a context and can fail
// is in a row of the table, and nothing else is.
func TestEveryCallIsFaulted(t *testing.T) {
	want := callsOfThePackage(t)
	require.Greater(t, len(want), 40)
	got := make(map[string]bool)
	for _, call := range faultedCalls() {
		require.NotEmpty(t, call.of, call.name)
		require.NotZero(t, call.requests, call.name)
		for _, name := range call.of {
			require.Contains(t, want, name, "of %s", call.name)
			got[name] = true
		}
	}
	for name := range withoutAFault {
		require.Contains(t, want, name)
		require.NotContains(t, got, name)
		got[name] = true
	}
	require.Equal(t, want, slices.Sorted(maps.Keys(got)))
}

// callsOfThePackage reads the source for the exported functions and methods, as
// Type.Method, that take a context first and return an error last.
func callsOfThePackage(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || !takesAContext(f.Type) || !returnsAnError(f.Type) {
				continue
			}
			if of := receiver(f); of == "" || ast.IsExported(of) {
				names = append(names, strings.TrimPrefix(of+"."+f.Name.Name, "."))
			}
		}
	}
	slices.Sort(names)
	return names
}

func takesAContext(f *ast.FuncType) bool {
	if len(f.Params.List) == 0 {
		return false
	}
	selector, ok := f.Params.List[0].Type.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "Context"
}

func returnsAnError(f *ast.FuncType) bool {
	if f.Results == nil {
		return false
	}
	last, ok := f.Results.List[len(f.Results.List)-1].Type.(*ast.Ident)
	return ok && last.Name == "error"
}

// receiver names the type of a method; it is empty for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	if pointer, ok := typ.(*ast.StarExpr); ok {
		typ = pointer.X
	}
	return typ.(*ast.Ident).Name
}
