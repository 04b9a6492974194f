package main

import (
	"go/ast"
	"slices"
)

// bodies sums up the functions of a package.
type bodies struct {
	median, ninety, longest int // lines of a function, from its first to its last
	commented               int // lines of comment per 100 lines within bodies
}

func (p pack) bodies() bodies {
	var lengths []int
	var lines, comments int
	for _, file := range p.files {
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			length := p.lines(function)
			lengths = append(lengths, length)
			inside := max(p.lines(function.Body)-2, 0)
			for _, group := range file.Comments {
				if group.Pos() > function.Body.Lbrace && group.End() <= function.Body.Rbrace {
					comments += p.lines(group)
				}
			}
			lines += inside
		}
	}
	if len(lengths) == 0 || lines == 0 {
		return bodies{}
	}
	slices.Sort(lengths)
	return bodies{
		median: lengths[len(lengths)/2], ninety: lengths[len(lengths)*9/10], longest: lengths[len(lengths)-1],
		commented: comments * 1000 / lines,
	}
}

// lines returns how many lines a node stands on.
func (p pack) lines(node ast.Node) int {
	return p.fset.Position(node.End()).Line - p.fset.Position(node.Pos()).Line + 1
}
