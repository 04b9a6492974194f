// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
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

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
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
		default:
			paths = append(paths, z.Path)
			below := strings.TrimPrefix(z.Path, strings.TrimSuffix(root, "/"))
			list = append(list, record{Path: strings.TrimSuffix(below, "/"), Data: z.Data})
		}
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
	if err := progress.finish(ctx, cmp.Or(errs...)); err != nil {
		return nil, nil, err
	}
	return list, ephemerals, nil
}

func verbExport(ctx context.Context, c *call) error {
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

func verbImport(fs *flag.FlagSet) action {
	overwrite := fs.Bool("overwrite", false, "change znodes that differ")
	yes := fs.Bool("yes", false, "change them with -overwrite, instead of only saying how many would change")
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
	p, err := c.plan(ctx, root, list)
	if err != nil {
		return err
	}
	switch {
	case len(p.occupied) > 0:
		return fmt.Errorf("nothing was done: %s exists and is ephemeral%s", p.occupied[0], more(p.occupied))
	case len(p.changed) > 0 && !overwrite:
		return fmt.Errorf("nothing was done: %s exists and differs%s", p.changed[0], more(p.changed))
	case len(p.changed) > 0 && !yes:
		return usage("%s would be changed; nothing was done: -yes is missing", znodes(len(p.changed)))
	}
	progress := c.newProgress("wrote", len(p.writes))
	for _, w := range p.writes {
		if err := c.writeOne(ctx, w); err != nil {
			return progress.finish(ctx, err)
		}
		progress.add()
	}
	if err := progress.finish(ctx, nil); err != nil {
		return err
	}
	c.complainf("wrote %s\n", znodes(len(p.writes)))
	return nil
}

// more counts the paths behind the first.
func more(paths []string) string {
	if len(paths) == 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", len(paths)-1)
}

// znodes counts znodes in words.
func znodes(n int) string {
	if n == 1 {
		return "1 znode"
	}
	return strconv.Itoa(n) + " znodes"
}

func (c *call) writeOne(ctx context.Context, w write) error {
	if !w.exists {
		_, err := c.client.Create(ctx, w.Path, w.Data, framework.WithACL(w.ACL...), framework.CreatingParentsIfNeeded())
		return err
	}
	if err := c.client.Set(ctx, w.Path, w.Data); err != nil {
		return err
	}
	return c.client.SetACL(ctx, w.Path, w.ACL)
}

// plan is what an import has to do.
type plan struct {
	writes   []write  // parents first
	changed  []string // the paths of writes to znodes that exist
	occupied []string // ephemeral znodes at the paths of records, or above
}

// write is a record with its whole path.
type write struct {
	record

	exists bool
}

// plan compares records with what is at root.
func (c *call) plan(ctx context.Context, root string, list []record) (plan, error) {
	present, ephemerals, err := c.records(ctx, root)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return plan{}, err
	}
	occupied := make(map[string]bool, len(ephemerals))
	for _, path := range ephemerals {
		occupied[path] = true
	}
	known := make(map[string]record, len(present))
	for _, r := range present {
		known[r.Path] = r
	}
	var p plan
	for _, r := range list {
		is, exists := known[r.Path]
		r.Path = cmp.Or(strings.TrimSuffix(root, "/")+r.Path, "/")
		at := firstOf(occupied, r.Path)
		switch {
		case at != "":
			p.occupied = append(p.occupied, at)
			continue
		case exists && bytes.Equal(is.Data, r.Data) && slices.Equal(is.ACL, r.ACL):
			continue
		case exists:
			p.changed = append(p.changed, r.Path)
		}
		p.writes = append(p.writes, write{r, exists})
	}
	slices.SortStableFunc(p.writes, func(a, b write) int { return strings.Count(a.Path, "/") - strings.Count(b.Path, "/") })
	return p, nil
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
