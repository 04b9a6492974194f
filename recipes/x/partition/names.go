// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// maxNames bounds the names of a set together, in bytes as pack leaves them. The first member has all of them
// in one znode, which a server limits to 1 MB, and their loads beside them.
const maxNames = 600_000

// MaxLoad is the greatest load of a partition.
const MaxLoad = 1_000_000

// packAbove is from how many bytes on data is compressed. People can read what is shorter.
const packAbove = 256 << 10

func pack(data []byte) ([]byte, error) {
	if len(data) < packAbove {
		return data, nil
	}
	return framework.GzipCompressionProvider{}.Compress("", data)
}

// unpack returns the data that pack was given, or that a program has compressed with gzip.
func unpack(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) { // RFC 1952
		return data, nil
	}
	return framework.GzipCompressionProvider{}.Decompress("", data)
}

// besideNames is the rest of a request that has the names: paths and ids above all.
const besideNames = 4 << 10

// Names is the set of partitions: a fixed set, see [Fixed], or the content of a znode, see
// [Stored].
type Names interface {
	// read returns the entries in the order of their names, without duplicates. lacking says why there is no set, and the
	// last one stays in force. err is a failure that may pass.
	read(ctx context.Context, client *framework.Framework) (set []entry, lacking, err error)

	// paths returns the znodes to follow, none if the set never changes.
	paths() []string

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

// Fixed returns a set that does not change. Members may have different sets, as in a rolling deployment. Then the
// group has the names of all of them, and a member may get a name that is not in its set. The group gives up the
// other names when all members have the same set again. A set that
// changes while members run belongs in a znode: see [Stored].
//
// A name is a valid name of a znode, which has no slash. The names may have 600,000 bytes together, as gzip
// compresses them: 100,000 names of a word and a number have 250,000. With
// [framework.WithMaxRequestSize] they must also fit in a request, with four kilobytes to spare.
func Fixed(names ...string) Names { return fixedNames(slices.Clone(names)) }

type fixedNames []string

func (f fixedNames) check(client *framework.Framework) error {
	if len(f) == 0 {
		return errors.New("no partitions, expected at least one name; a set that may be empty is Stored")
	}
	return checkNames(client, f)
}

func (fixedNames) paths() []string { return nil }

func (f fixedNames) id() string {
	return fmt.Sprintf("%016x", hash(strings.Join(slices.Sorted(slices.Values(f)), "\n")))
}

func (f fixedNames) read(context.Context, *framework.Framework) (set []entry, lacking, err error) {
	return entriesOf(slices.Sorted(slices.Values(f))), nil, nil
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
// and the functions of removed ones end with [ErrRemoved]. The data may be compressed with gzip.
//
// While the znode is missing or cannot be read, or its data is not such a list, the last set stays in force, and
// an error is logged. A znode without data is the empty set.
func Stored(path string) Names { return storedNames(path) }

type storedNames string

func (s storedNames) paths() []string { return []string{string(s)} }
func (s storedNames) id() string      { return string(s) }

func (s storedNames) check(*framework.Framework) error {
	return framework.ValidatePath(string(s))
}

func (s storedNames) read(ctx context.Context, client *framework.Framework) (set []entry, lacking, err error) {
	data, err := client.Get(ctx, string(s), framework.Undecompressed())
	switch {
	case errors.Is(err, framework.ErrNoNode) || err != nil && !mayPass(err) && ctx.Err() == nil:
		return nil, err, nil
	case err != nil:
		return nil, nil, err
	}
	data, lacking = unpack(attempt.Plain(client, string(s), data))
	if lacking == nil {
		set, lacking = parseNames(client, data)
	}
	if lacking != nil {
		return nil, lacking, nil
	}
	return set, nil, nil
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

// Without returns the names of a set that no other one of these sets has. The log says which names it leaves out, when they change.
// Another set has no names while its znode is missing or not valid.
func Without(set Names, others ...Names) Names {
	return &restNames{Names: set, others: slices.Clone(others)}
}

type restNames struct {
	Names

	others []Names
	told   atomic.Pointer[string] // the names that the last read has left out
}

func (r *restNames) all() []Names { return append([]Names{r.Names}, r.others...) }

func (r *restNames) check(client *framework.Framework) error {
	for _, names := range r.all() {
		if names == nil {
			return errors.New("a set nil, expected Fixed or Stored")
		}
		if err := names.check(client); err != nil {
			return err
		}
	}
	return nil
}

func (r *restNames) paths() (paths []string) {
	for _, names := range r.all() {
		paths = append(paths, names.paths()...)
	}
	return paths
}

func (r *restNames) id() string {
	var ids []string
	for _, names := range r.all() {
		ids = append(ids, names.id())
	}
	return fmt.Sprintf("%016x", hash(strings.Join(ids, "\n")))
}

func (r *restNames) read(ctx context.Context, client *framework.Framework) (set []entry, lacking, err error) {
	if set, lacking, err = r.Names.read(ctx, client); lacking != nil || err != nil {
		return nil, lacking, err
	}
	taken := make(map[string]bool)
	for _, names := range r.others {
		other, _, err := names.read(ctx, client) // a set that is not valid must not hold this one up
		if err != nil {
			return nil, nil, err
		}
		for _, e := range other {
			taken[e.name] = true
		}
	}
	var out []string
	set = slices.DeleteFunc(set, func(e entry) bool {
		if taken[e.name] {
			out = append(out, e.name)
		}
		return taken[e.name]
	})
	text := strings.Join(out, ", ")
	if before := r.told.Swap(&text); text != "" && (before == nil || *before != text) {
		client.Logger().Error("names are in two sets of partitions, and one of them leaves them to the other", "names", text, "of", r.Names.id())
	}
	return set, nil, nil
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
	if err == nil {
		data, err = pack(data)
	}
	limit := max(0, min(maxNames, client.MaxRequestSize()-besideNames))
	if err == nil && len(names) > 0 && len(data) > limit {
		err = fmt.Errorf("the names of the partitions have %d bytes, compressed if there are many, expected at most %d", len(data), limit)
	}
	return err
}

// mayPass reports whether the znode of a member may be created later, although an attempt has
// failed with err. Lack of rights and the like take a person to change.
func mayPass(err error) bool {
	var panicked *attempt.PanicError
	return framework.Retryable(err) || framework.OutcomeUnknown(err) || attempt.RefusedForNow(err) || attempt.Overtaken(err) ||
		errors.Is(err, framework.ErrNotEmpty) || errors.Is(err, framework.ErrSessionEnded) || errors.As(err, &panicked)
}

func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return mix(h.Sum64())
}

// mix spreads each bit over all, as the end of MurmurHash3 does.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
