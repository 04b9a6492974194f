// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/token"
	"slices"
)

// mentionsAll reports whether a part of the function mentions each word. A word is
//
//   - "name()" for a call of a function or a method of that name;
//   - "name=" for an assignment to a field or a variable of that name;
//   - "name" for any use of it;
//   - "return", "break" and "continue" for such a statement;
//   - a number or a string in quotes for that literal.
//
// A name that the function declares itself, such as a local variable, is never mentioned:
// another name for it changes nothing.
func (f *function) mentionsAll(part ast.Node, words []string) bool {
	missing := slices.Clone(words)
	ast.Inspect(part, func(node ast.Node) bool {
		said := f.said(node)
		missing = slices.DeleteFunc(missing, func(word string) bool { return slices.Contains(said, word) })
		return len(missing) > 0
	})
	return len(missing) == 0
}

// said returns the words that a node says itself, without those of the nodes below it
// unless only the node knows their meaning.
func (f *function) said(node ast.Node) []string {
	var words []string
	switch n := node.(type) {
	case *ast.Ident:
		if !f.locals[n.Name] {
			words = append(words, n.Name)
		}
	case *ast.SelectorExpr:
		words = append(words, n.Sel.Name)
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok {
			words = append(words, key.Name)
		}
	case *ast.BasicLit:
		words = append(words, n.Value)
	case *ast.CallExpr:
		words = append(words, f.saidOf(n.Fun, "()")...)
	case *ast.AssignStmt:
		for _, target := range n.Lhs {
			words = append(words, f.saidOf(target, "=")...)
		}
	case *ast.IncDecStmt:
		words = append(words, f.saidOf(n.X, "=")...)
	case *ast.ReturnStmt:
		words = append(words, token.RETURN.String())
	case *ast.BranchStmt:
		words = append(words, n.Tok.String())
	}
	return words
}

// saidOf returns the name of an expression and a suffix as a word.
func (f *function) saidOf(expr ast.Expr, suffix string) []string {
	name := lastName(expr)
	if ident, ok := expr.(*ast.Ident); name == "" || ok && f.locals[ident.Name] {
		return nil
	}
	return []string{name + suffix}
}
