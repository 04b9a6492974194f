// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
)

// guardedSet is what the holders of an exclusive lock append to: znodes named by
// numbers, below the one of the lock.
type guardedSet struct {
	framework *framework.Framework
	path      string
}

// setsFolder is where all sets are.
const setsFolder = "/nemesis/sets/"

// setOf is the set of a lock.
func setOf(f *framework.Framework, lock string) guardedSet { return guardedSet{f, setsFolder + lock} }

// create makes the set, empty.
func (s guardedSet) create(ctx context.Context) error {
	_, err := s.framework.Create(ctx, s.path+"/0000000000", nil, framework.CreatingParentsIfNeeded())
	if err != nil {
		return fmt.Errorf("nemesis: set: %w", err)
	}
	return nil
}

// last returns the path and the data of the newest part.
func (s guardedSet) last(ctx context.Context) (part string, data []byte, err error) {
	parts, err := s.parts(ctx)
	if err != nil {
		return "", nil, err
	}
	part = parts[len(parts)-1]
	data, err = s.framework.Get(ctx, part)
	return part, data, err
}

// parts are the paths of all, the newest last.
func (s guardedSet) parts(ctx context.Context) ([]string, error) {
	names, err := s.framework.Children(ctx, s.path)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = s.path + "/" + name
	}
	return names, nil
}

// next is the path of the part after this one.
func (s guardedSet) next(part string) string {
	n, err := strconv.Atoi(path.Base(part))
	if err != nil {
		panic(err) // it was named here
	}
	return fmt.Sprintf("%s/%010d", s.path, n+1)
}

// values are all that is in the set.
func (s guardedSet) values(ctx context.Context) ([]string, error) {
	if err := s.framework.Sync(ctx, s.path); err != nil {
		return nil, err
	}
	parts, err := s.parts(ctx)
	if err != nil {
		return nil, err
	}
	all := []string{}
	for _, part := range parts {
		data, err := s.framework.Get(ctx, part)
		if err != nil {
			return nil, err
		}
		all = append(all, strings.Fields(string(data))...)
	}
	return all, nil
}
