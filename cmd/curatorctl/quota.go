// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
)

// quotas is where servers keep quotas, outside of any chroot. A quota is two znodes below the path that it is for.
const (
	quotas      = "/zookeeper/quota"
	quotaLimits = "zookeeper_limits"
	quotaStats  = "zookeeper_stats"
)

// limits are what a quota allows and what counts for it, by ZooKeeper's names. -1 is no limit.
type limits map[string]int64

// The names that ZooKeeper before 3.7 knows come first, with a comma between them.
var quotaNames = []string{"count", "bytes"}

// String returns the limits as ZooKeeper writes them.
func (l limits) String() string {
	var soft, hard []string
	for _, name := range quotaNames {
		value, found := l[name]
		if !found {
			value = -1
		}
		soft = append(soft, fmt.Sprintf("%s=%d", name, value))
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if !slices.Contains(quotaNames, name) {
			hard = append(hard, fmt.Sprintf(";%s=%d", name, l[name]))
		}
	}
	return strings.Join(soft, ",") + strings.Join(hard, "")
}

// parseLimits reads what String writes.
func parseLimits(text string) (limits, error) {
	l := make(limits)
	for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("quota %q, expected name=number and commas", text)
		}
		l[name] = n
	}
	return l, nil
}

// verbQuota shows the quota of a subtree and what counts for it, or changes it.
func verbQuota(fs *flag.FlagSet) func(context.Context, *call) error {
	changes := make(limits)
	limit := func(flagName, name, about string) {
		fs.Func(flagName, about+"; -1 for no limit", func(text string) error {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < -1 {
				return errors.New("expected -1 or more")
			}
			changes[name] = n
			return nil
		})
	}
	limit("count", "count", "set the `number` of znodes above which servers write a warning")
	limit("bytes", "bytes", "set the `number` of bytes above which servers write a warning")
	limit("hard-count", "countHardLimit", "set the `number` of znodes above which servers refuse, from ZooKeeper 3.7 with enforceQuota=true")
	limit("hard-bytes", "byteHardLimit", "set the `number` of bytes above which servers refuse")
	remove := fs.Bool("delete", false, "delete the quota")
	return func(ctx context.Context, c *call) error {
		path := c.args[0]
		if err := framework.ValidatePath(path); err != nil {
			return err
		}
		if root := c.client.FullPath("/"); root != "/" {
			return usage("quota: -servers has the chroot %s, and quotas are outside of it: expected servers without a chroot, and the whole path", root)
		}
		switch {
		case *remove && len(changes) > 0:
			return usage("quota: -delete together with a limit, expected one of them")
		case *remove:
			return c.deleteQuota(ctx, path)
		case len(changes) > 0:
			if err := c.setQuota(ctx, path, changes); err != nil {
				return err
			}
		}
		return c.showQuota(ctx, path)
	}
}

// quotaNode returns where a part of the quota of a path is.
func quotaNode(path, part string) string {
	return framework.JoinPath(quotas+strings.TrimSuffix(path, "/"), part)
}

func (c *call) showQuota(ctx context.Context, path string) error {
	said := make(map[string]string)
	for name, part := range map[string]string{"limits": quotaLimits, "stats": quotaStats} {
		data, err := c.client.Get(ctx, quotaNode(path, part))
		if errors.Is(err, framework.ErrNoNode) {
			return fmt.Errorf("%s has no quota: %w", path, err)
		}
		if err != nil {
			return err
		}
		said[name] = string(data)
	}
	if c.output == "json" {
		return c.json(said)
	}
	return c.table([][]string{{"limits", printable(said["limits"])}, {"used", printable(said["stats"])}})
}

// setQuota changes some limits of a quota, and creates it if there is none.
func (c *call) setQuota(ctx context.Context, path string, changes limits) error {
	if path == "/" || path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return usage("quota: %s, expected a path outside of /zookeeper and not the root", path)
	}
	switch stat, err := c.client.Exists(ctx, path); {
	case err != nil:
		return err
	case stat == nil:
		return fmt.Errorf("%s: %w", path, framework.ErrNoNode)
	}
	var stat framework.Stat
	data, err := c.client.Get(ctx, quotaNode(path, quotaLimits), framework.StoringStatIn(&stat))
	switch {
	case errors.Is(err, framework.ErrNoNode):
		return c.createQuota(ctx, path, changes)
	case err != nil:
		return err
	}
	now, err := parseLimits(string(data))
	if err != nil {
		return err
	}
	maps.Copy(now, changes)
	return c.client.Set(ctx, quotaNode(path, quotaLimits), []byte(now.String()), framework.WithVersion(stat.Version))
}

// createQuota refuses a quota within another one: servers count a znode for one quota only.
func (c *call) createQuota(ctx context.Context, path string, l limits) error {
	for above, _ := framework.SplitPath(path); above != "/"; above, _ = framework.SplitPath(above) {
		stat, err := c.client.Exists(ctx, quotaNode(above, quotaLimits))
		if err != nil {
			return err
		}
		if stat != nil {
			return fmt.Errorf("%s, which is above, has a quota, expected none", above)
		}
	}
	nodes, err := inspect.Tree(ctx, c.client, quotas+path)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return err
	}
	for _, z := range nodes {
		if folder, name := framework.SplitPath(z.Path); name == quotaLimits {
			return fmt.Errorf("%s, which is below, has a quota, expected none", strings.TrimPrefix(folder, quotas))
		}
	}
	if _, err := c.client.Create(ctx, quotas+path, nil, framework.CreatingParentsIfNeeded()); err != nil && !errors.Is(err, framework.ErrNodeExists) {
		return err
	}
	_, err = c.client.Transact(ctx,
		framework.CreateOp(quotaNode(path, quotaLimits), []byte(l.String())),
		framework.CreateOp(quotaNode(path, quotaStats), []byte("count=0,bytes=0"))) // for which the server counts
	if err != nil {
		return errors.Join(err, c.deleteQuotaFolders(ctx, path))
	}
	return nil
}

// deleteQuota deletes a quota and the folders that were there for it.
func (c *call) deleteQuota(ctx context.Context, path string) error {
	_, err := c.client.Transact(ctx, framework.DeleteOp(quotaNode(path, quotaLimits)), framework.DeleteOp(quotaNode(path, quotaStats)))
	if errors.Is(err, framework.ErrNoNode) {
		return fmt.Errorf("%s has no quota: %w", path, err)
	}
	if err != nil {
		return err
	}
	return c.deleteQuotaFolders(ctx, path)
}

// deleteQuotaFolders deletes the folders of a quota that are empty.
func (c *call) deleteQuotaFolders(ctx context.Context, path string) error {
	for folder := quotas + strings.TrimSuffix(path, "/"); folder != quotas; folder, _ = framework.SplitPath(folder) {
		err := c.client.Delete(ctx, folder)
		if errors.Is(err, framework.ErrNotEmpty) || errors.Is(err, framework.ErrNoNode) {
			return nil // another quota is below, or was deleted at the same time
		}
		if err != nil {
			return err
		}
	}
	return nil
}
