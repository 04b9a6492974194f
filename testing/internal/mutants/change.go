// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// change is a defect as a row describes it: what is changed, and the words by which the
// program finds where. See mentionsAll for the words.
type change struct {
	what  string
	words []string
	sites func(*function) []site
}

// site is a place where a change is possible.
type site struct {
	node     ast.Node // what has to mention the words of the change
	from, to token.Pos
	text     string // what stands there after the change
}

// String describes the change as the reports do: negate(isOver()).
func (c change) String() string { return fmt.Sprintf("%s(%s)", c.what, strings.Join(c.words, ", ")) }

// negate turns a condition around. A condition is what an if, a for or a case of a switch
// without a tag decides by, a comparison, a negation, or an operand of && or ||; of those
// that mention the words, the innermost one is changed. If none does, the one within the smallest
// part of the function that mentions them is changed, as with all changes here.
func negate(words ...string) change { return change{"negate", words, negations} }

// always makes a condition true, after it is evaluated as before.
func always(words ...string) change {
	return change{"always", words, conditionsAs("(%s || true)")}
}

// never makes a condition false, after it is evaluated as before.
func never(words ...string) change {
	return change{"never", words, conditionsAs("(%s && false)")}
}

// boundary moves the limit of a comparison by one: < becomes <=, and > becomes >=, and the
// other way round.
func boundary(words ...string) change { return change{"boundary", words, boundaries} }

// drop leaves out the innermost statement that mentions the words. That may be a case of a
// switch or a select; a statement that opens a block mentions what its head does.
func drop(words ...string) change { return change{"drop", words, statements} }

// postpone makes the innermost call that is a statement and mentions the words run when
// the function returns.
func postpone(words ...string) change { return change{"postpone", words, postponements} }

// become puts other code in the place of the innermost expression that mentions the words.
// In the code $0 is that expression, $r the receiver of the function, and $1 its first
// parameter.
func become(code string, words ...string) change {
	return change{"become " + code, words, expressionsAs(code)}
}

// begin puts code at the beginning of a function. In the code $r is the receiver, and $1 the
// first parameter. The code "return nil" leaves out what the function does.
func begin(code string) change {
	return change{"begin with " + code, nil, func(f *function) []site {
		body := f.decl.Body.Lbrace + 1
		return []site{{f.decl, body, body, " " + f.named(code) + "; "}}
	}}
}

// apply returns the file of the function after the change. The error says that there is no
// place for the change, or more than one.
func (c change) apply(f *function) ([]byte, error) {
	found := c.find(f)
	if len(found) != 1 {
		return nil, fmt.Errorf("%s is possible at %d places in %s, expected one", c, len(found), functionName(f.decl))
	}
	return f.with(found[0].from, found[0].to, found[0].text), nil
}

// find returns the innermost sites that mention the words, or, if there are none, those
// within the smallest part of the function that mentions the words and has a site.
func (c change) find(f *function) []site {
	sites := c.sites(f)
	mentioning := slices.DeleteFunc(slices.Clone(sites), func(s site) bool { return !f.mentionsAll(s.node, c.words) })
	if len(mentioning) > 0 {
		return innermostSites(mentioning)
	}
	var around []site // the nodes around sites that mention the words
	ast.Inspect(f.decl.Body, func(node ast.Node) bool {
		if node == nil || !f.mentionsAll(node, c.words) {
			return false
		}
		if slices.ContainsFunc(sites, func(s site) bool { return within(s.node, node) }) {
			around = append(around, site{node: node})
		}
		return true
	})
	smallest := innermostSites(around)
	return innermostSites(slices.DeleteFunc(sites, func(s site) bool {
		return !slices.ContainsFunc(smallest, func(outer site) bool { return within(s.node, outer.node) })
	}))
}

// innermostSites returns the sites that have no other one in them.
func innermostSites(sites []site) []site {
	return slices.DeleteFunc(slices.Clone(sites), func(s site) bool {
		return slices.ContainsFunc(sites, func(other site) bool { return other.node != s.node && within(other.node, s.node) })
	})
}

// within reports whether a node is a part of another one.
func within(inner, outer ast.Node) bool {
	return outer.Pos() <= inner.Pos() && inner.End() <= outer.End()
}

// named puts the names of the receiver and of the parameters into code.
func (f *function) named(code string) string {
	if f.decl.Recv != nil && len(f.decl.Recv.List[0].Names) > 0 {
		code = strings.ReplaceAll(code, "$r", f.decl.Recv.List[0].Names[0].Name)
	}
	n := 0
	for _, field := range f.decl.Type.Params.List {
		for _, name := range field.Names {
			n++
			code = strings.ReplaceAll(code, fmt.Sprintf("$%d", n), name.Name)
		}
	}
	return code
}
