package main

// largestCycle returns how many files of the package are in the largest
// strongly connected set of the graph "refers to something declared in". Files
// that refer to no other, or that no other refers to, form sets of one, which
// count as none.
func (p pack) largestCycle() int {
	edges := p.references()
	reach := make(map[string]map[string]bool, len(edges))
	for file := range edges {
		reach[file] = map[string]bool{}
		walk(edges, file, reach[file])
	}
	largest := 0
	for file := range edges {
		size := 0
		for other := range reach[file] {
			if other == file || reach[other][file] {
				size++
			}
		}
		if reach[file][file] {
			largest = max(largest, size)
		}
	}
	return largest
}

// walk adds to seen all files that can be reached from file.
func walk(edges map[string]map[string]bool, file string, seen map[string]bool) {
	for next := range edges[file] {
		if !seen[next] {
			seen[next] = true
			walk(edges, next, seen)
		}
	}
}

// references returns for each file the other files of the package that declare
// something it uses: functions, types, methods, fields, constants, variables.
func (p pack) references() map[string]map[string]bool {
	edges := make(map[string]map[string]bool, len(p.files))
	for _, file := range p.files {
		edges[p.fset.Position(file.Pos()).Filename] = map[string]bool{}
	}
	for ident, object := range p.info.Uses {
		if object.Pkg() == nil || object.Pkg().Path() != p.name {
			continue
		}
		from, to := p.fset.Position(ident.Pos()).Filename, p.fset.Position(object.Pos()).Filename
		if _, ours := edges[to]; ours && from != to {
			edges[from][to] = true
		}
	}
	return edges
}
