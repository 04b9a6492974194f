// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework"
)

// Znode is one znode, as [Tree] has read it.
type Znode struct {
	Path string
	Data []byte
	Stat framework.Stat

	// Err matches [framework.ErrNoAuth] if this client may not read the znode. Then Data and Stat
	// are missing. If the client may not list the znode either, everything below it is missing.
	Err error
}

// Tree reads all znodes at a path and below it, with their data, and returns them in the order
// of their paths, parents first. It reads level by level, in pipelines, and keeps everything in
// memory. The server's own nodes below /zookeeper are left out, unless the path is there. The
// error matches [framework.ErrNoNode] when there is no znode at the path; znodes that go during
// the call are left out.
func Tree(ctx context.Context, client *framework.Framework, path string) ([]Znode, error) {
	if _, err := newConfig(path, nil); err != nil {
		return nil, at(path, err)
	}
	var nodes []Znode
	for level := []string{path}; len(level) > 0; {
		lists, err := unbounded.readLists(ctx, client, level)
		if err != nil {
			return nil, at(path, err)
		}
		read := make([]Znode, len(level))
		reads := make([]framework.Read, len(level))
		for i := range read {
			z := &read[i]
			z.Path = level[i]
			reads[i] = framework.ReadData(z.Path, &z.Data, framework.StoringStatIn(&z.Stat)).StoringErrorIn(&z.Err)
		}
		if err := readAll(ctx, client, reads); err != nil {
			return nil, at(path, err)
		}
		level = nil
		for i, z := range read {
			switch {
			case z.Err == nil, errors.Is(z.Err, framework.ErrNoAuth):
			case z.Path == path, !errors.Is(z.Err, framework.ErrNoNode):
				return nil, fmt.Errorf("inspect: %w", z.Err)
			default:
				continue
			}
			nodes = append(nodes, z)
			for _, name := range lists[i].names {
				if child := framework.JoinPath(z.Path, name); client.FullPath(child) != serverNodes {
					level = append(level, child)
				}
			}
		}
	}
	slices.SortFunc(nodes, func(a, b Znode) int {
		return slices.Compare(framework.PathNames(a.Path), framework.PathNames(b.Path))
	})
	return nodes, nil
}
