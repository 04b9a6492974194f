// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// conditions returns what a function decides by, see negate.
func conditions(f *function) []ast.Expr {
	var list []ast.Expr
	seen := make(map[ast.Expr]bool)
	add := func(exprs ...ast.Expr) {
		for _, expr := range exprs {
			if expr != nil && !seen[expr] {
				seen[expr] = true
				list = append(list, expr)
			}
		}
	}
	ast.Inspect(f.decl.Body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.IfStmt:
			add(n.Cond)
		case *ast.ForStmt:
			add(n.Cond)
		case *ast.SwitchStmt:
			for _, clause := range n.Body.List {
				if c, ok := clause.(*ast.CaseClause); ok && n.Tag == nil {
					add(c.List...)
				}
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				add(n)
			}
		case *ast.BinaryExpr:
			switch n.Op {
			case token.LAND, token.LOR:
				add(n, n.X, n.Y)
			case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
				add(n)
			default: // the others compute
			}
		}
		return true
	})
	return list
}

// conditionsAs returns the conditions of a function, each within the format.
func conditionsAs(format string) func(*function) []site {
	return func(f *function) []site {
		var list []site
		for _, c := range conditions(f) {
			list = append(list, site{c, c.Pos(), c.End(), fmt.Sprintf(format, f.text(c.Pos(), c.End()))})
		}
		return list
	}
}

// negations returns the conditions of a function, turned around.
func negations(f *function) []site { return conditionsAs("!(%s)")(f) }

// boundaries returns the comparisons of a function with limits that are one off.
func boundaries(f *function) []site {
	other := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	var list []site
	for _, c := range conditions(f) {
		if b, ok := c.(*ast.BinaryExpr); ok && other[b.Op] != "" {
			list = append(list, site{b, b.OpPos, b.OpPos + token.Pos(len(b.Op.String())), other[b.Op]})
		}
	}
	return list
}

// statements returns the statements of a function, each to be left out. What they mention
// stays in use, for a program with an unused variable does not compile.
func statements(f *function) []site {
	var list []site
	add := func(stmts []ast.Stmt) {
		for _, s := range stmts {
			text := "if false { " + f.text(s.Pos(), s.End()) + " }"
			switch s.(type) {
			case *ast.CaseClause, *ast.CommClause:
				text = ""
			}
			list = append(list, site{s, s.Pos(), s.End(), text})
		}
	}
	ast.Inspect(f.decl.Body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BlockStmt:
			add(n.List)
		case *ast.CaseClause:
			add(n.Body)
		case *ast.CommClause:
			add(n.Body)
		}
		return true
	})
	return list
}

// postponements returns the calls that are statements of a function, to run at its end.
func postponements(f *function) []site {
	var list []site
	ast.Inspect(f.decl.Body, func(node ast.Node) bool {
		if call, ok := node.(*ast.ExprStmt); ok {
			list = append(list, site{call, call.Pos(), call.Pos(), "defer "})
		}
		return true
	})
	return list
}

// expressionsAs returns the expressions of a function, with code in their places.
func expressionsAs(code string) func(*function) []site {
	return func(f *function) []site {
		var list []site
		add := func(e ast.Expr) {
			list = append(list, site{e, e.Pos(), e.End(), strings.ReplaceAll(f.named(code), "$0", f.text(e.Pos(), e.End()))})
		}
		names := make(map[ast.Node]bool) // of fields and methods, which are no expressions
		ast.Inspect(f.decl.Body, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.SelectorExpr:
				names[n.Sel] = true
			case *ast.KeyValueExpr:
				names[n.Key] = true
			}
			if e, ok := node.(ast.Expr); ok && !names[e] {
				add(e)
			}
			return true
		})
		return list
	}
}

// constants returns the numbers in a function, each one greater by one.
func constants(f *function) []site {
	var list []site
	ast.Inspect(f.decl.Body, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.INT {
			if n, err := strconv.ParseInt(literal.Value, 0, 64); err == nil {
				list = append(list, site{literal, literal.Pos(), literal.End(), strconv.FormatInt(n+1, 10)})
			}
		}
		return true
	})
	return list
}

// simpleStatements returns the statements of a function that neither declare a variable nor
// end it, each to be left out.
func simpleStatements(f *function) []site {
	return slices.DeleteFunc(statements(f), func(s site) bool {
		switch n := s.node.(type) {
		case *ast.AssignStmt:
			return n.Tok == token.DEFINE
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt:
			return false
		}
		return true
	})
}
