package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// phrases are the constructions that this project does not use, each with what
// to write in its place. The limit is how many of them 1,000 words may have:
// twice what the comments of pgx have.
var phrases = []phrase{
	{`no ?body|any ?body|every ?body`, "no client, any client, all waiters", 0},
	{`that of|those of`, "repeat the noun", 0.02},
	{`who`, "the holder, the waiter, the caller", 0.06},
	{`who(so)?ever`, "the client that", 0},
	{`tells? (whether|if)`, "reports whether", 0},
	{`meanwhile`, "in the meantime, or leave it out", 0.1},
	{`(is|are) to be`, "must, will", 0},
	{`of (which|whom|whose)`, "split the sentence", 0.06},
	{`for ever`, "forever", 0.12},
	{`anew`, "again", 0},
	{`in place of`, "instead of", 0},
	{`other than`, "unlike, except", 0.1},
	{`also (not|when|while|in|of)`, "not even, even when", 0.1},
}

// phrase is one construction, as a regular expression of whole words.
type phrase struct {
	pattern string
	instead string
	limit   float64 // occurrences per 1,000 words
}

var compiled = func() []*regexp.Regexp {
	list := make([]*regexp.Regexp, len(phrases))
	for i, p := range phrases {
		list[i] = regexp.MustCompile(`(?i)\b(` + p.pattern + `)\b`)
	}
	return list
}()

// text is a piece of prose and where it begins.
type text struct {
	at    token.Position
	prose string
}

// comments returns the comments of a package, without directives.
func (p pack) comments() []text {
	var list []text
	for _, file := range p.files {
		for _, group := range file.Comments {
			list = append(list, text{p.fset.Position(group.Pos()), group.Text()})
		}
	}
	return list
}

// messages returns the string literals of a package that are sentences rather
// than names: they have a blank in them.
func (p pack) messages() []text {
	var list []text
	for _, file := range p.files {
		ast.Inspect(file, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if ok && literal.Kind == token.STRING && strings.Contains(strings.TrimSpace(literal.Value), " ") {
				list = append(list, text{p.fset.Position(literal.Pos()), literal.Value})
			}
			return true
		})
	}
	return list
}

// document returns the prose of a document in Markdown, a piece per line, without
// its blocks of code.
func document(name, content string) []text {
	var list []text
	code := false
	for i, line := range strings.Split(content, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case !code:
			list = append(list, text{token.Position{Filename: name, Line: i + 1}, line})
		}
	}
	return list
}

// words counts the words of texts, and how often each phrase stands in them.
func words(texts []text) (total int, found []int) {
	found = make([]int, len(phrases))
	for _, t := range texts {
		prose := strings.Join(strings.Fields(t.prose), " ")
		total += len(strings.Fields(prose))
		for i, pattern := range compiled {
			found[i] += len(pattern.FindAllString(prose, -1))
		}
	}
	return total, found
}
