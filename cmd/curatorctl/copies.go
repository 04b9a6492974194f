// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
)

// record is a znode in an export: its path below the exported one, "" for that itself. Servers
// do not say which znodes are containers, so all are persistent when they are imported.
type record struct {
	Path string `json:"path"`
	Data []byte `json:"data"`
	ACL  acl    `json:"acl"`
}

// aclWindow is how many access control lists are asked for at a time.
const aclWindow = 32

// records reads a subtree, and the paths of what belongs to sessions apart from it.
func (c *call) records(ctx context.Context, root string) (list []record, ephemerals []string, err error) {
	nodes, err := inspect.Tree(ctx, c.client, root)
	if err != nil {
		return nil, nil, err
	}
	var paths []string
	for _, z := range nodes {
		switch {
		case z.Err != nil:
			return nil, nil, z.Err
		case z.Stat.EphemeralOwner != 0:
			ephemerals = append(ephemerals, z.Path)
			continue
		}
		paths = append(paths, z.Path)
		below := z.Path
		if root != "/" {
			below = strings.TrimPrefix(z.Path, root)
		}
		if below == "/" {
			below = ""
		}
		list = append(list, record{Path: below, Data: z.Data})
	}
	progress := c.newProgress("read", len(paths))
	errs := make([]error, len(paths))
	var wg sync.WaitGroup
	slots := make(chan struct{}, aclWindow)
	for i, p := range paths {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if list[i].ACL, errs[i] = c.wholeACL(ctx, p); errs[i] == nil {
				progress.add()
			}
		})
	}
	wg.Wait()
	failed := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if failed < 0 {
		return list, ephemerals, progress.finish(ctx, nil)
	}
	return nil, nil, progress.finish(ctx, errs[failed])
}

func verbExport(*flag.FlagSet) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		list, ephemerals, err := c.records(ctx, c.args[0])
		if err != nil {
			return err
		}
		out := bufio.NewWriter(c.stdout)
		encoder := json.NewEncoder(out)
		for _, r := range list {
			if err := encoder.Encode(r); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		c.complainf("exported %s; ephemeral znodes left out: %d\n", znodes(len(list)), len(ephemerals))
		return nil
	}
}

// readRecords reads an export. Every line is checked before anything is done with one.
func readRecords(r io.Reader) ([]record, error) {
	var list []record
	paths := make(map[string]bool)
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	for line := 1; ; line++ {
		var next record
		err := decoder.Decode(&next)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err == nil && next.Path == "/" {
			err = errors.New(`the path "/", expected "" for the exported znode`)
		} else if err == nil && next.Path != "" {
			err = framework.ValidatePath(next.Path)
		}
		if err == nil {
			err = next.ACL.validate()
		}
		if err == nil && paths[next.Path] {
			err = fmt.Errorf("the path %q comes a second time", next.Path)
		}
		if err != nil {
			return nil, &exit{status: exitFailed, err: fmt.Errorf("record %d: %w", line, err)}
		}
		paths[next.Path] = true
		list = append(list, next)
	}
}

// readExport reads a file, or the standard input for "-".
func (c *call) readExport(name string) ([]record, error) {
	if name == "-" {
		return readRecords(c.stdin)
	}
	in, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	list, err := readRecords(in)
	return list, errors.Join(err, in.Close())
}

func join(root, below string) string {
	switch {
	case below == "":
		return root
	case root == "/":
		return below
	default:
		return root + below
	}
}

func verbImport(fs *flag.FlagSet) func(context.Context, *call) error {
	overwrite := fs.Bool("overwrite", false, "change znodes that differ")
	yes := fs.Bool("yes", false, "do it, with -overwrite")
	return func(ctx context.Context, c *call) error {
		list, err := interruptible(ctx, func() ([]record, error) { return c.readExport(c.arg(1, "-")) })
		if err != nil {
			return err
		}
		return c.write(ctx, c.args[0], list, *overwrite, *yes)
	}
}

// write creates the records below root, parents first, and sets what differs if it may.
func (c *call) write(ctx context.Context, root string, list []record, overwrite, yes bool) error {
	differs, err := c.differences(ctx, root, list)
	if err != nil {
		return err
	}
	changed, occupied := ofKind(differs, "changed"), ofKind(differs, "occupied")
	switch {
	case len(occupied) > 0:
		return fmt.Errorf("nothing was done: %s exists and is ephemeral%s", occupied[0].path, more(occupied))
	case len(changed) > 0 && !overwrite:
		return fmt.Errorf("nothing was done: %s exists and differs%s", changed[0].path, more(changed))
	case len(changed) > 0 && !yes:
		return usage("%s would be changed; nothing was done: -yes is missing", znodes(len(changed)))
	}
	slices.SortStableFunc(differs, func(a, b difference) int { return strings.Count(a.path, "/") - strings.Count(b.path, "/") })
	progress := c.newProgress("wrote", len(differs))
	for _, d := range differs {
		if err := c.writeOne(ctx, d); err != nil {
			return progress.finish(ctx, err)
		}
		progress.add()
	}
	if err := progress.finish(ctx, nil); err != nil {
		return err
	}
	c.complainf("wrote %s\n", znodes(len(differs)))
	return nil
}

// more counts those behind the first of some differences.
func more(differs []difference) string {
	if len(differs) == 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", len(differs)-1)
}

// znodes counts znodes in words.
func znodes(n int) string {
	if n == 1 {
		return "1 znode"
	}
	return strconv.Itoa(n) + " znodes"
}

func ofKind(differs []difference, kind string) []difference {
	return slices.DeleteFunc(slices.Clone(differs), func(d difference) bool { return d.kind != kind })
}

func (c *call) writeOne(ctx context.Context, d difference) error {
	if d.kind == "changed" {
		if err := c.client.Set(ctx, d.path, d.record.Data); err != nil {
			return err
		}
		return c.client.SetACL(ctx, d.path, d.record.ACL)
	}
	_, err := c.client.Create(ctx, d.path, d.record.Data, framework.WithACL(d.record.ACL...), framework.CreatingParentsIfNeeded())
	return err
}

// difference is one between records and znodes, as the records see it: a znode is added or changed
// by them. It is occupied if they would replace one that belongs to a session.
type difference struct {
	kind   string
	path   string
	record record
}

// differences compares records with what is at root.
func (c *call) differences(ctx context.Context, root string, list []record) ([]difference, error) {
	present, ephemerals, err := c.records(ctx, root)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return nil, err
	}
	occupied := make(map[string]bool, len(ephemerals))
	for _, path := range ephemerals {
		occupied[path] = true
	}
	known := make(map[string]record, len(present))
	for _, r := range present {
		known[r.Path] = r
	}
	var differs []difference
	for _, r := range list {
		is, found := known[r.Path]
		at := firstOf(occupied, join(root, r.Path))
		switch {
		case at != "":
			differs = append(differs, difference{"occupied", at, r})
		case !found:
			differs = append(differs, difference{"added", join(root, r.Path), r})
		case !bytes.Equal(is.Data, r.Data) || !slices.Equal(is.ACL, r.ACL):
			differs = append(differs, difference{"changed", join(root, r.Path), r})
		}
	}
	return differs, nil
}

// firstOf returns the path, or the nearest one above it, that is in the set; "" if none is.
func firstOf(set map[string]bool, path string) string {
	for ; path != "/"; path, _ = framework.SplitPath(path) {
		if set[path] {
			return path
		}
	}
	return ""
}
