// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// function is a function of the tree and the file that declares it.
type function struct {
	file   string // slashes, relative to the module root
	source []byte
	start  token.Pos // of the file, so that positions become offsets
	decl   *ast.FuncDecl
	locals map[string]bool // the names that the function declares
}

// findFunction returns the one function of a folder that has the name, which is "F",
// "T.M" or "(*T).M". Test files and files of other systems do not count.
func findFunction(root, folder, name string) (*function, error) {
	all, err := functions(root, folder, name)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("%s has %d functions %s, expected one", folder, len(all), name)
	}
	return all[0], nil
}

// functions returns the functions of a folder that have the name, or all if it is "".
func functions(root, folder, name string) ([]*function, error) {
	dir := filepath.Join(root, filepath.FromSlash(folder))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []*function
	for _, path := range files {
		built, err := build.Default.MatchFile(dir, filepath.Base(path))
		if err != nil {
			return nil, err
		}
		if !built || strings.HasSuffix(path, "_test.go") {
			continue
		}
		found, err := functionsOf(path, name)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			f.file = folder + "/" + filepath.Base(path)
		}
		all = append(all, found...)
	}
	return all, nil
}

// functionsOf returns the functions of a file that have the name, or all if it is "".
func functionsOf(path, name string) ([]*function, error) {
	source, err := os.ReadFile(path) //nolint:gosec // a source file of the module
	if err != nil {
		return nil, err
	}
	// Most files do not mention the name, and parsing is what costs time.
	if !bytes.Contains(source, []byte(name[strings.LastIndex(name, ".")+1:])) {
		return nil, nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []*function
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if ok && d.Body != nil && (name == "" || functionName(d) == name) {
			found = append(found, &function{source: source, start: file.FileStart, decl: d, locals: localNames(d)})
		}
	}
	return found, nil
}

// functionName returns "F", "T.M" or "(*T).M", without type parameters.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver, format := d.Recv.List[0].Type, "%s.%s"
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver, format = pointer.X, "(*%s).%s"
	}
	return fmt.Sprintf(format, lastName(receiver), d.Name.Name)
}

// localNames returns the names that a function declares: its receiver, its parameters,
// its results and its variables.
func localNames(d *ast.FuncDecl) map[string]bool {
	names := make(map[string]bool)
	declare := func(list ...ast.Expr) {
		for _, expr := range list {
			if ident, ok := expr.(*ast.Ident); ok {
				names[ident.Name] = true
			}
		}
	}
	ast.Inspect(d, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.StructType, *ast.InterfaceType:
			return false // their fields and methods are no variables
		case *ast.Field:
			for _, name := range n.Names {
				declare(name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				declare(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				declare(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				declare(n.Key, n.Value)
			}
		}
		return true
	})
	return names
}

// text returns the source of a range of positions.
func (f *function) text(from, to token.Pos) string {
	return string(f.source[from-f.start : to-f.start])
}

// with returns the whole file with another text for a range of positions.
func (f *function) with(from, to token.Pos, text string) []byte {
	return bytes.Join([][]byte{f.source[:from-f.start], []byte(text), f.source[to-f.start:]}, nil)
}

// line returns the line of a position.
func (f *function) line(at token.Pos) int {
	return 1 + bytes.Count(f.source[:at-f.start], []byte("\n"))
}

// lastName returns the name by which an expression is called or assigned to: F of F, of
// p.F, of F[T] and of (*F). It is "" for an expression without a name.
func lastName(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return lastName(e.X)
	case *ast.IndexListExpr:
		return lastName(e.X)
	case *ast.ParenExpr:
		return lastName(e.X)
	case *ast.StarExpr:
		return lastName(e.X)
	}
	return ""
}
