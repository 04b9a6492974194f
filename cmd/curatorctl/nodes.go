// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
)

// znode is a znode in JSON. The data is in base64, and missing where it is empty or was not read.
type znode struct {
	Path           string    `json:"path"`
	Data           []byte    `json:"data,omitempty"`
	Bytes          int32     `json:"bytes"`
	Version        int32     `json:"version"`
	ACLVersion     int32     `json:"aclVersion"`
	ChildVersion   int32     `json:"childVersion"`
	Children       int32     `json:"children"`
	Czxid          string    `json:"czxid"`
	Mzxid          string    `json:"mzxid"`
	Pzxid          string    `json:"pzxid"`
	Created        time.Time `json:"created"`
	Changed        time.Time `json:"changed"`
	EphemeralOwner string    `json:"ephemeralOwner"`
}

func newZnode(path string, data []byte, stat framework.Stat) znode {
	hex := func(n int64) string { return fmt.Sprintf("0x%x", uint64(n)) } //nolint:gosec // as ZooKeeper prints it
	return znode{
		Path: path, Data: data, Bytes: stat.DataLength, Version: stat.Version, ACLVersion: stat.Aversion, ChildVersion: stat.Cversion,
		Children: stat.NumChildren, Czxid: hex(stat.Czxid), Mzxid: hex(stat.Mzxid), Pzxid: hex(stat.Pzxid),
		Created: time.UnixMilli(stat.Ctime).UTC(), Changed: time.UnixMilli(stat.Mtime).UTC(), EphemeralOwner: hex(stat.EphemeralOwner),
	}
}

// modeOf returns what kind of znode it is. Servers do not tell containers, and znodes with a
// time to live, from others.
func modeOf(stat framework.Stat) string {
	if stat.EphemeralOwner != 0 {
		return "ephemeral"
	}
	return "persistent"
}

func verbLs(ctx context.Context, c *call) error {
	parent := c.arg(0, "/")
	names, err := c.client.Children(ctx, parent)
	if err != nil {
		return err
	}
	slices.Sort(names)
	if c.output != "wide" {
		return c.say(append([]string{}, names...), allPrintable(names)...)
	}
	reads, stats := make([]framework.Read, len(names)), make([]*framework.Stat, len(names))
	for i, name := range names {
		reads[i] = framework.ReadStat(framework.JoinPath(parent, name), &stats[i])
	}
	if err := c.client.Pipeline(ctx, reads...); err != nil {
		return err
	}
	rows := [][]string{{"NAME", "MODE", "BYTES", "CHILDREN", "VERSION", "CHANGED"}}
	for i, stat := range stats {
		if stat == nil {
			continue
		}
		rows = append(rows, []string{
			printable(names[i]), modeOf(*stat), strconv.Itoa(int(stat.DataLength)), strconv.Itoa(int(stat.NumChildren)),
			strconv.Itoa(int(stat.Version)), time.UnixMilli(stat.Mtime).UTC().Format(time.RFC3339),
		})
	}
	return c.table(rows)
}

func verbGet(ctx context.Context, c *call) error {
	var stat framework.Stat
	data, err := c.client.Get(ctx, c.args[0], framework.StoringStatIn(&stat))
	if err != nil {
		return err
	}
	if c.output == "json" {
		return c.json(newZnode(c.args[0], data, stat))
	}
	_, err = c.stdout.Write(data)
	return err
}

// input is the data of set and create: an argument, or the standard input for - or none.
func (c *call) input(ctx context.Context, missing []byte) ([]byte, error) {
	switch {
	case len(c.args) > 1 && c.args[1] != "-":
		return []byte(c.args[1]), nil
	case len(c.args) == 1 && missing != nil:
		return missing, nil
	default:
		data, err := interruptible(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(c.stdin, maxInput+1)) })
		if len(data) > maxInput {
			return nil, fmt.Errorf("%w: the standard input has more than %d bytes", framework.ErrTooLarge, maxInput)
		}
		return data, err
	}
}

// maxInput is more than a znode of this command can have; see [framework.WithMaxRequestSize].
const maxInput = 1 << 20

func verbSet(fs *flag.FlagSet) action {
	version := versionFlag(fs)
	return func(ctx context.Context, c *call) error {
		data, err := c.input(ctx, nil)
		if err != nil {
			return err
		}
		if len(data) == 0 && len(c.args) == 1 {
			return usage("set: the standard input is empty, expected data; \"\" or - as DATA sets none")
		}
		ctx, cancel := c.limited(ctx)
		defer cancel()
		return c.client.Set(ctx, c.args[0], data, framework.WithVersion(*version))
	}
}

func verbCreate(fs *flag.FlagSet) action {
	parents := fs.Bool("p", false, "create missing parents")
	sequential := fs.Bool("s", false, "have the server append a number")
	container := fs.Bool("container", false, "create a container, which the servers delete after its last child")
	ttl := timeFlag(fs, "ttl", "`time` without a change after which the server may delete the znode", 0)
	return func(ctx context.Context, c *call) error {
		data, err := c.input(ctx, []byte{})
		if err != nil {
			return err
		}
		var opts []framework.CreateOption
		if *parents {
			opts = append(opts, framework.CreatingParentsIfNeeded())
		}
		switch {
		case *container && (*sequential || *ttl != 0):
			return usage("create: -container with -s or -ttl, expected one of them")
		case *container:
			opts = append(opts, framework.WithMode(framework.Container))
		case *ttl != 0 && *sequential:
			opts = append(opts, framework.WithMode(framework.PersistentSequentialWithTTL), framework.WithTTL(*ttl))
		case *ttl != 0:
			opts = append(opts, framework.WithMode(framework.PersistentWithTTL), framework.WithTTL(*ttl))
		case *sequential:
			opts = append(opts, framework.WithMode(framework.PersistentSequential))
		}
		ctx, cancel := c.limited(ctx)
		defer cancel()
		created, err := c.client.Create(ctx, c.args[0], data, opts...)
		if err != nil {
			return err
		}
		return c.println(created)
	}
}

func verbRm(fs *flag.FlagSet) action {
	recursive := fs.Bool("r", false, "delete the znodes below it, too")
	version := versionFlag(fs)
	yes := fs.Bool("yes", false, "delete with -r, instead of only saying what would be deleted")
	return func(ctx context.Context, c *call) error {
		if *recursive && *version != -1 {
			return usage("rm: -r together with -version, expected one of them: a subtree has no version")
		}
		if !*recursive {
			ctx, cancel := c.limited(ctx)
			defer cancel()
			for _, p := range c.args {
				if err := c.client.Delete(ctx, p, framework.WithVersion(*version)); err != nil {
					return err
				}
			}
			return nil
		}
		trees := make([][]inspect.Znode, len(c.args))
		for i, p := range c.args {
			if p == "/" {
				return c.client.Delete(ctx, p) // which refuses it
			}
			var err error
			if trees[i], err = inspect.Tree(ctx, c.client, p); err != nil {
				return err
			}
			c.complainf("deletes %s at %s and below\n", znodes(len(trees[i])), printable(p))
		}
		if !*yes {
			return usage("rm: nothing was done: -yes is missing")
		}
		for i, p := range c.args {
			if err := c.removeAll(ctx, p, trees[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// removeWindow is how many znodes are deleted at a time.
const removeWindow = 100

// removeAll deletes znodes that were found at a path and below it, the deepest first, and what
// has come there since.
func (c *call) removeAll(ctx context.Context, path string, nodes []inspect.Znode) error {
	var levels [][]framework.Op
	for _, z := range nodes {
		depth := len(framework.PathNames(z.Path)) - len(framework.PathNames(path))
		for len(levels) <= depth {
			levels = append(levels, nil)
		}
		levels[depth] = append(levels[depth], framework.DeleteOp(z.Path, framework.Quietly()))
	}
	done := 0
	soFar := func(err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("deleted %d of %d znodes: %w", done, len(nodes), cmp.Or(context.Cause(ctx), err))
	}
	for _, level := range slices.Backward(levels) {
		for ops := range slices.Chunk(level, removeWindow) {
			var failed error
			results, _ := c.client.Bulk(ctx, ops) // each result has its error
			for _, r := range results {
				switch {
				case r.Err == nil:
					done++
				case !errors.Is(r.Err, framework.ErrNotEmpty): // one with new children goes last
					failed = r.Err
				}
			}
			if failed != nil {
				return soFar(failed)
			}
		}
	}
	return soFar(c.client.Delete(ctx, path, framework.DeletingChildrenIfNeeded(), framework.Quietly()))
}

func verbStat(ctx context.Context, c *call) error {
	stat, err := c.client.Exists(ctx, c.args[0])
	switch {
	case err != nil:
		return err
	case stat == nil:
		return fmt.Errorf("%s: %w", c.args[0], framework.ErrNoNode)
	}
	z := newZnode(c.args[0], nil, *stat)
	return c.show(z, [][]string{
		{"path", printable(z.Path)},
		{"mode", modeOf(*stat)},
		{"bytes", strconv.Itoa(int(stat.DataLength))},
		{"children", strconv.Itoa(int(z.Children))},
		{"versions", fmt.Sprintf("data %d, children %d, ACL %d", z.Version, z.ChildVersion, z.ACLVersion)},
		{"created", z.Created.Format(time.RFC3339Nano) + " by " + z.Czxid},
		{"changed", z.Changed.Format(time.RFC3339Nano) + " by " + z.Mzxid},
		{"owner", z.EphemeralOwner},
	})
}

func verbFind(fs *flag.FlagSet) action {
	name := textFlag(fs, "name", "`pattern` of the last name, as a shell has it")
	owner := textFlag(fs, "owner", "`session` that owns the znode, 0x...")
	ephemeral := fs.Bool("ephemeral", false, "list ephemeral znodes only")
	larger := numberFlag(fs, "larger", "list znodes with more `bytes`", 0, -1)
	contains := textFlag(fs, "contains", "`text` in the data")
	return func(ctx context.Context, c *call) error {
		if _, err := path.Match(*name, ""); err != nil {
			return usage("find: -name %q: %w", *name, err)
		}
		session, isSession := inspect.ParseSession(*owner)
		if *owner != "" && !isSession {
			return usage("find: -owner %q, expected 0x and hexadecimal digits", *owner)
		}
		nodes, err := inspect.Tree(ctx, c.client, c.arg(0, "/"))
		if err != nil {
			return err
		}
		found := []string{}
		for _, z := range nodes {
			_, last := framework.SplitPath(z.Path)
			matches, _ := path.Match(*name, last) // the pattern is a good one
			switch {
			case z.Err != nil:
				c.complainf("curatorctl: %s may not be read\n", printable(z.Path))
			case *name != "" && !matches,
				isSession && z.Stat.EphemeralOwner != session,
				*ephemeral && z.Stat.EphemeralOwner == 0,
				int(z.Stat.DataLength) <= *larger,
				!bytes.Contains(z.Data, []byte(*contains)):
			default:
				found = append(found, z.Path)
			}
		}
		return c.say(found, allPrintable(found)...)
	}
}

// znodes counts znodes in words.
func znodes(n int) string {
	if n == 1 {
		return "1 znode"
	}
	return strconv.Itoa(n) + " znodes"
}
