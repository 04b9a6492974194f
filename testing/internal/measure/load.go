// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// pack is a package of this module, parsed and type-checked without its tests.
type pack struct {
	name  string // the import path
	fset  *token.FileSet
	files []*ast.File
	types *types.Package
}

// listed is what go list says about a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// load returns the packages that match the patterns.
func load(ctx context.Context, patterns []string) ([]pack, error) {
	all, err := list(ctx, patterns)
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string, len(all))
	for _, l := range all {
		exports[l.ImportPath] = l.Export
	}
	fset := token.NewFileSet()
	// One for all packages, since it reads each import once.
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var packs []pack
	for _, l := range all {
		if l.DepOnly || len(l.GoFiles) == 0 {
			continue
		}
		p, err := check(l, fset, imports)
		if err != nil {
			return nil, err
		}
		packs = append(packs, p)
	}
	return packs, nil
}

// list runs go list, which also compiles what the packages import.
func list(ctx context.Context, patterns []string) ([]listed, error) {
	args := append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the arguments are package patterns
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []listed
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, l)
	}
}

// check parses and type-checks one package against the compiled imports.
func check(l listed, fset *token.FileSet, imports types.Importer) (pack, error) {
	p := pack{name: l.ImportPath, fset: fset}
	for _, name := range l.GoFiles {
		file, err := parser.ParseFile(p.fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return pack{}, err
		}
		p.files = append(p.files, file)
	}
	config := types.Config{Importer: imports}
	checked, err := config.Check(l.ImportPath, p.fset, p.files, nil)
	if err != nil {
		return pack{}, err
	}
	p.types = checked
	return p, nil
}
