// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// vandalTime bounds what a vandal does. Without a connection it gives up.
const vandalTime = 3 * time.Second

// errNothingThere is why nothing was done: no client had or wanted the lock.
var errNothingThere = errors.New("there was nothing")

// vandalise does to the folder of a lock what somebody with all rights can do. In a guarded round
// it has none, but knows all names.
func vandalise(ctx context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo, error) {
	ctx, cancel := context.WithTimeout(ctx, vandalTime)
	defer cancel()
	withFolders := slices.DeleteFunc(slices.Clone(c.locks), func(s lockSpec) bool { return len(s.folders()) == 0 })
	if len(withFolders) == 0 {
		return nil, errNothingThere
	}
	spec := oneOf(random, withFolders...)
	folder := oneOf(random, spec.folders()...)
	act := oneOf(random, vandalisms...)
	record.Detail = spec.Name + ": " + act.name
	revert, err := act.do(ctx, c, folder, random, record)
	if errors.Is(err, zk.ErrNoNode) {
		err = errNothingThere
	}
	if c.setup.guarded {
		err = record.refuse(err)
		if record.Refused {
			revert = nil
		}
	}
	return revert, err
}

// vandalisms are what a vandal does.
var vandalisms = []struct {
	name string
	do   func(ctx context.Context, c *cluster, folder string, random *rand.Rand, record *faultRecord) (undo, error)
}{
	{"the first node deleted", deleteFirst},
	{"all nodes deleted, and the folder", deleteFolder},
	{"data rewritten", rewriteData},
	{"rights taken away", denyRights},
	{"foreign children", addForeigners},
}

// nodesOf are the paths of a folder's children, the first in the queue first where names
// tell.
func nodesOf(ctx context.Context, c *cluster, folder string) ([]string, error) {
	names, err := c.admin.Children(ctx, folder)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) })
	for i, name := range names {
		names[i] = folder + "/" + name
	}
	return names, nil
}

// numberOf is the sequence number at the end of a name, or what stands there.
func numberOf(name string) string {
	const digits = 10
	return name[max(0, len(name)-digits):]
}

func deleteFirst(ctx context.Context, c *cluster, folder string, _ *rand.Rand, record *faultRecord) (undo, error) {
	nodes, err := nodesOf(ctx, c, folder)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, errNothingThere
	}
	record.Nodes = nodes[:1]
	return nil, c.vandal.Delete(ctx, nodes[0])
}

func deleteFolder(ctx context.Context, c *cluster, folder string, _ *rand.Rand, record *faultRecord) (undo, error) {
	nodes, err := nodesOf(ctx, c, folder)
	if err != nil {
		return nil, err
	}
	record.Nodes = nodes
	for _, node := range nodes {
		if err := c.vandal.Delete(ctx, node, framework.Quietly()); err != nil && !errors.Is(err, zk.ErrNotEmpty) {
			return nil, err
		}
	}
	err = c.vandal.Delete(ctx, folder)
	if errors.Is(err, zk.ErrNotEmpty) { // another client was quicker, and now has it alone
		err = nil
	}
	return nil, err
}

func rewriteData(ctx context.Context, c *cluster, folder string, random *rand.Rand, _ *faultRecord) (undo, error) {
	nodes, err := nodesOf(ctx, c, folder)
	if err != nil {
		return nil, err
	}
	garbage := make([]byte, random.IntN(2000))
	for i := range garbage {
		garbage[i] = byte(random.Uint32())
	}
	for _, node := range append(nodes, folder) {
		if err := c.vandal.Set(ctx, node, garbage); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
	}
	return nil, nil
}

func denyRights(ctx context.Context, c *cluster, folder string, _ *rand.Rand, _ *faultRecord) (undo, error) {
	read, all := zk.WorldACL(zk.PermRead|zk.PermAdmin), zk.WorldACL(zk.PermAll)
	return func(ctx context.Context) error {
		err := c.vandal.SetACL(ctx, folder, all)
		for framework.OutcomeUnknown(err) && ctx.Err() == nil {
			err = c.vandal.SetACL(ctx, folder, all)
		}
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		return err
	}, c.vandal.SetACL(ctx, folder, read)
}

// addForeigners puts children into the folder that belong to no client. Some of their names
// look as if they were in the queue. After a failure the undo deletes those that are there.
func addForeigners(ctx context.Context, c *cluster, folder string, random *rand.Rand, _ *faultRecord) (undo, error) {
	names := []string{"README", "_c_a", "lock-", "lock--1", "0000000000", fmt.Sprintf("x-%d", random.Uint32())}
	remove := func(ctx context.Context) error {
		var err error
		for _, name := range names {
			// No client uses these names, so a try whose outcome is unknown is repeated.
			err = errors.Join(err, c.vandal.Delete(ctx, folder+"/"+name, framework.Idempotent()))
		}
		return err
	}
	for _, name := range names {
		_, err := c.vandal.Create(ctx, folder+"/"+name, []byte("nobody's"))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return remove, err
		}
	}
	return remove, nil
}
