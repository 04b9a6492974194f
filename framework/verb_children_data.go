package framework

import (
	"context"
	"fmt"
	"slices"
)

// maxChildrenAtOnce is how many children are read in one write. More are read in parts, so that a
// large folder does not hold up the requests of other goroutines.
const maxChildrenAtOnce = 1024

// Child is a znode in a folder, as [Framework.ChildrenData] reads it.
type Child struct {
	Name string
	Data []byte // which the caller may keep and change
	Stat Stat
}

// ChildrenData returns the children of a znode with their data and Stats. It takes two round trips: one for
// the names, and one for each 1024 children. Children that are deleted in between are left out. The error matches
// [ErrNoNode] if there is no znode, and is the error of a child that cannot be read.
//
// A function choose, if it is not nil, receives the names in their order and returns those that are read, in the order of
// the result. Without it all children are read, in the order of their names. The children may be read at different times:
// a child may be newer than another one.
func (f *Framework) ChildrenData(ctx context.Context, path string, choose func(names []string) []string) ([]Child, error) {
	names, err := f.Children(ctx, path)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	if choose != nil {
		names = choose(names)
	}
	children := make([]Child, 0, len(names))
	for part := range slices.Chunk(names, maxChildrenAtOnce) {
		if children, err = f.appendChildren(ctx, children, path, part); err != nil {
			return nil, err
		}
	}
	return children, nil
}

func (f *Framework) appendChildren(ctx context.Context, children []Child, path string, names []string) ([]Child, error) {
	read := make([]Child, len(names))
	absent := make([]bool, len(names))
	reads := make([]Read, len(names))
	for i, name := range names {
		child := JoinPath(path, name)
		// A name that choose has made up must not lead elsewhere.
		if parent, last := SplitPath(child); parent != path || last != name {
			return nil, failed(opChildren, path, fmt.Errorf("%w: child %q, expected one of the names", ErrInvalidOption, name))
		}
		read[i].Name = name
		reads[i] = ReadData(child, &read[i].Data, StoringStatIn(&read[i].Stat), StoringAbsenceIn(&absent[i]))
	}
	if err := f.Pipeline(ctx, reads...); err != nil {
		return nil, err
	}
	for i, child := range read {
		if !absent[i] {
			children = append(children, child)
		}
	}
	return children, nil
}
