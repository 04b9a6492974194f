package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// site is the place in the sources that a mutant changes.
type site struct {
	file       string // slashes, relative to the module root
	source     []byte
	start, end int // offsets of the text to replace
}

// find looks for the mutant's old text in the declaration that the mutant
// names. Tokens are compared, not bytes, so layout and comments do not matter,
// and any file of the folder may have the declaration.
func (m mutant) find(root string) (site, error) {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(m.dir), "*.go"))
	if err != nil {
		return site{}, err
	}
	var found []site
	var declared bool
	want := tokens([]byte(m.old))
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path) //nolint:gosec // a source file of the module
		if err != nil {
			return site{}, err
		}
		spans, err := declarations(path, source, m.in)
		if err != nil {
			return site{}, err
		}
		declared = declared || len(spans) > 0
		file := m.dir + "/" + filepath.Base(path)
		for _, span := range spans {
			for _, at := range occurrences(source, span, want) {
				found = append(found, site{file, source, at.start, at.end})
			}
		}
	}
	switch {
	case !declared:
		return site{}, fmt.Errorf("no file of %s declares %s", m.dir, m.in)
	case len(found) != 1:
		return site{}, fmt.Errorf("the old text occurs %d times in %s of %s, want exactly once: %q", len(found), m.in, m.dir, m.old)
	}
	return found[0], nil
}

// span is a range of offsets in a source.
type span struct{ start, end int }

// declarations returns where source declares name: a function, a method as
// "(*T).Method" or "T.Method", or a type, constant or variable.
func declarations(path string, source []byte, name string) ([]span, error) {
	// Most files do not name it at all, and parsing is what costs time.
	if !bytes.Contains(source, []byte(name[strings.LastIndex(name, ".")+1:])) {
		return nil, nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var spans []span
	for _, decl := range file.Decls {
		if slices.Contains(declaredNames(decl), name) {
			spans = append(spans, span{fset.Position(decl.Pos()).Offset, fset.Position(decl.End()).Offset})
		}
	}
	return spans, nil
}

// declaredNames returns the names that a top-level declaration gives.
func declaredNames(decl ast.Decl) []string {
	var names []string
	switch d := decl.(type) {
	case *ast.FuncDecl:
		names = append(names, functionName(d))
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
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
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	name := "?"
	if ident, ok := receiver.(*ast.Ident); ok {
		name = ident.Name
	}
	return fmt.Sprintf(format, name, d.Name.Name)
}

// lexeme is one token of Go and where it stands.
type lexeme struct {
	text string
	span
}

// tokens splits Go text into its tokens. The semicolons that the scanner
// inserts at line ends are left out, as are comments.
func tokens(source []byte) []lexeme {
	var s scanner.Scanner
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(source))
	s.Init(file, source, nil, 0)
	var list []lexeme
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return list
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		text := literal
		if text == "" || tok == token.SEMICOLON {
			text = tok.String()
		}
		start := file.Offset(pos)
		list = append(list, lexeme{text, span{start, start + len(text)}})
	}
}

// occurrences returns where want stands within a span of source.
func occurrences(source []byte, within span, want []lexeme) []span {
	have := tokens(source[within.start:within.end])
	same := func(a, b lexeme) bool { return a.text == b.text }
	var list []span
	for i := 0; len(want) > 0 && i+len(want) <= len(have); i++ {
		part := have[i : i+len(want)]
		if slices.EqualFunc(part, want, same) {
			list = append(list, span{within.start + part[0].start, within.start + part[len(part)-1].end})
		}
	}
	return list
}
