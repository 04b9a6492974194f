// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// maxNames bounds the names of a set together, in bytes of JSON. The first member has all of them
// in one znode, which a server limits to 1 MB.
const maxNames = 900_000

// besideNames is the rest of a request that has the names: paths and ids above all.
const besideNames = 4 << 10

// Names is the set of partitions: a fixed set, see [Fixed], or the content of a znode, see
// [Stored].
type Names interface {
	// load returns the entries in the order of their names, without duplicates. known is false if there
	// is no znode with a set.
	load(ctx context.Context, client *framework.Framework) (set []entry, known bool, err error)

	// path returns the znode to follow, "" if the set never changes.
	path() string

	// id differs from the ids of other sets.
	id() string

	// check returns what is wrong with the set, as far as it is known, for members of this client.
	check(client *framework.Framework) error
}

// entry is a partition of a set.
type entry struct {
	name string
	load int // 0 if the set does not say
}

// Fixed returns a set that does not change. While members have different sets, as in a rolling deployment, the
// group has the names of all of them, and a member may get a name that is not in its set. Only when all members have the same
// set again, the group gives up the other names. A set that
// changes while members run belongs in a znode: see [Stored].
//
// A name is a valid name of a znode, which has no slash. As a JSON array, in which each name has
// two quotes and a comma, the names may have 900,000 bytes together. With
// [framework.WithMaxRequestSize] they must also fit in a request, with four kilobytes to spare.
func Fixed(names ...string) Names { return fixedNames(slices.Clone(names)) }

type fixedNames []string

func (f fixedNames) check(client *framework.Framework) error { return checkNames(client, f) }
func (fixedNames) path() string                              { return "" }

func (f fixedNames) id() string {
	return fmt.Sprintf("%016x", hash(strings.Join(slices.Sorted(slices.Values(f)), "\n")))
}

func (f fixedNames) load(context.Context, *framework.Framework) ([]entry, bool, error) {
	return entriesOf(slices.Sorted(slices.Values(f))), true, nil
}

func entriesOf(names []string) []entry {
	set := make([]entry, len(names))
	for i, name := range names {
		set[i].name = name
	}
	return set
}

// Stored returns the set that the znode at path has, one name per line. Empty lines, and spaces
// around a name, do not count. A tab and a load of 0 to [MaxLoad] may follow the name: see
// [Partition.ReportLoad], which takes precedence. The set may change while members run: new partitions are placed,
// and the functions of removed ones end with [ErrRemoved].
//
// While the znode is missing, or its data is not such a list, the last set stays in force, and
// an error is logged. A znode without data is the empty set.
func Stored(path string) Names { return storedNames(path) }

type storedNames string

func (s storedNames) path() string { return string(s) }
func (s storedNames) id() string   { return string(s) }

func (s storedNames) check(*framework.Framework) error {
	return framework.ValidatePath(string(s))
}

func (s storedNames) load(ctx context.Context, client *framework.Framework) ([]entry, bool, error) {
	data, err := client.Get(ctx, string(s), framework.Undecompressed())
	if errors.Is(err, framework.ErrNoNode) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	set, err := parseNames(client, attempt.Plain(client, string(s), data))
	if err != nil {
		client.Logger().Error("a set of partitions is not valid, the last one stays in force", logPath, string(s), "error", err)
		return nil, false, nil
	}
	return set, true, nil
}

func parseNames(client *framework.Framework, data []byte) ([]entry, error) {
	var set []entry
	var names []string
	for line := range strings.Lines(string(data)) {
		name, load, hasLoad := strings.Cut(strings.TrimSpace(line), "\t") // no name of a znode has a tab
		if name == "" {
			continue
		}
		e := entry{name: strings.TrimSpace(name)}
		if hasLoad {
			n, err := strconv.Atoi(strings.TrimSpace(load))
			if err != nil || n < 0 || n > MaxLoad {
				return nil, fmt.Errorf("load %q of partition %q, expected 0 to %d", load, e.name, MaxLoad)
			}
			e.load = max(1, n)
		}
		set, names = append(set, e), append(names, e.name)
	}
	slices.SortFunc(set, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	slices.Sort(names)
	return set, checkNames(client, names)
}

// isName reports whether a znode can have the name.
func isName(name string) bool {
	return name != "" && !strings.Contains(name, "/") && framework.ValidatePath("/"+name) == nil
}

// checkNames refuses names that cannot be znodes, appear twice, or are too long for the share of
// one member.
func checkNames(client *framework.Framework, names []string) error {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		switch {
		case !isName(name):
			return fmt.Errorf("partition %q, expected a name that a znode can have, without a slash", name)
		case seen[name]:
			return fmt.Errorf("partition %q twice, expected each name once", name)
		}
		seen[name] = true
	}
	data, err := json.Marshal(names)
	limit := max(0, min(maxNames, client.MaxRequestSize()-besideNames))
	if err == nil && len(names) > 0 && len(data) > limit {
		err = fmt.Errorf("the names of the partitions have %d bytes as JSON, expected at most %d", len(data), limit)
	}
	return err
}
