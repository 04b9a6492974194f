// SPDX-License-Identifier: Apache-2.0

// Package hardship makes calls under bad conditions: with a timeout that is shorter than a round
// trip, on a slow link, through an outage, with contexts that end for reasons of their own, and
// with loggers that block. Each call must return in time, make no more requests and nodes than
// it may, and leave nothing.
//
// A package of this module declares its calls as a table of [Call], runs it with [Run],
// and checks with [Complete] that no exported call is missing. All time is fake.
package hardship

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
)

// Call is a public call in one situation.
type Call struct {
	Name     string
	Of       []string // the exported functions and methods that it calls, as Type.Method
	Requests int      // that it makes when nothing goes wrong, with those of what it has acquired

	// Prepare prepares the situation on a fast network, and returns the call. The call may
	// be made by many goroutines at once.
	Prepare func(s *Stage) func(ctx context.Context) error

	// Spares is how many of these requests the call may omit. Two goroutines of a recipe run in any
	// order, and the second may find its work done.
	Spares int

	// Heap is how many bytes one of many participants may take, 0 the usual 64 KiB.
	Heap int64

	// Fails says that the call never succeeds.
	Fails bool

	// May reports whether the call may end so although its context goes on; nil is never.
	May func(error) bool
}

// Stage is where a call is made. Prepare may set what is not set.
type Stage struct {
	T      *testing.T
	Name   string               // of the hardship
	Path   string               // that no other stage uses
	Server *zkserver.Server     // nil of OnZooKeeper
	Ours   *framework.Framework // of the caller, behind Link
	Theirs *framework.Framework // of a rival, in whose way nothing is
	Link   *zkproxy.Proxy

	// Crowd says that many make the call at once, and that each gives back at once what it gets.
	Crowd bool

	// Refused says that the server refuses a request of the call.
	Refused bool

	// Later is what the rival does while the call waits.
	Later func()

	// Rival checks that a rival gets what the caller wanted, when the caller's client is closed.
	Rival func()

	// Returned checks, as soon as the call has returned, what must be true then.
	Returned func(err error)

	// End gives back what the call holds when it has returned, and checks that another client gets
	// it.
	End func(err error)
}

// Complete checks that the exported functions and methods in the folder of the test that
// take a context and can fail, at once or in a sequence, are in a row of the table or among the exceptions, which
// give a reason each. Methods count when their type is exported, or when an exported struct
// embeds it.
func Complete(t *testing.T, calls []Call, except map[string]string) {
	t.Helper()
	complete(t, calls, except, exported(t, takesAContext))
}

// CompleteAll is Complete for all that can fail, with a context or without.
func CompleteAll(t *testing.T, calls []Call, except map[string]string) {
	t.Helper()
	complete(t, calls, except, exported(t, func(*ast.FuncType) bool { return true }))
}

func complete(t *testing.T, calls []Call, except map[string]string, want []string) {
	t.Helper()
	require.NotEmpty(t, want)
	got := make(map[string]bool)
	for _, call := range calls {
		require.NotEmpty(t, call.Of, call.Name)
		for _, name := range call.Of {
			require.Contains(t, want, name, "of the row %s", call.Name)
			got[name] = true
		}
	}
	for name, reason := range except {
		require.NotEmpty(t, reason, name)
		require.Contains(t, want, name, "among the exceptions")
		require.NotContains(t, got, name, "among the exceptions, and in a row")
		got[name] = true
	}
	require.Equal(t, want, slices.Sorted(maps.Keys(got)), "exported calls, and those in the table")
}

// exported reads the source in the working directory.
func exported(t *testing.T, counts func(*ast.FuncType) bool) (names []string) {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var files []*ast.File
	reachable := map[string]bool{"": true}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
		for _, name := range embedded(file) {
			reachable[name] = true
		}
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || !counts(f.Type) || !returnsAnError(f.Type) {
				continue
			}
			if of := receiver(f); reachable[of] || ast.IsExported(of) {
				names = append(names, strings.TrimPrefix(of+"."+f.Name.Name, "."))
			}
		}
	}
	slices.Sort(names)
	return names
}

// embedded names the types of the package that its exported structs embed.
func embedded(file *ast.File) (names []string) {
	for _, decl := range file.Decls {
		types, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range types.Specs {
			typ, ok := spec.(*ast.TypeSpec)
			if !ok || !typ.Name.IsExported() {
				continue
			}
			if fields, ok := typ.Type.(*ast.StructType); ok {
				for _, field := range fields.Fields.List {
					if len(field.Names) == 0 {
						names = append(names, typeName(field.Type))
					}
				}
			}
		}
	}
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
	last := f.Results.List[len(f.Results.List)-1].Type
	if sequence, ok := last.(*ast.IndexListExpr); ok { // iter.Seq2[..., error]
		last = sequence.Indices[len(sequence.Indices)-1]
	}
	id, ok := last.(*ast.Ident)
	return ok && id.Name == "error"
}

// receiver names the type of a method; it is empty for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	return typeName(f.Recv.List[0].Type)
}

// typeName names a type of the package, without its parameters and what points at it.
func typeName(typ ast.Expr) string {
	if pointer, ok := typ.(*ast.StarExpr); ok {
		typ = pointer.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name
	}
	return "another package's"
}
