// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/recipes/locks"
)

// row is one recipe of a picture. A picture may have 100,000 and more, so a row has what it is sorted by, and the
// rest in a form that takes a third of the memory of an [inspect.Recipe].
type row struct {
	path         string // the beginning of packed
	packed       string
	held, waited int64 // Unix milliseconds since when one holds and one waits for longest, never for none
	waiters      int32
	isLock       bool
}

const (
	never   = math.MaxInt64
	rowCost = 64 // bytes of a row beside what is packed
)

// pack appends a recipe to a buffer, its path first, without what can be computed from the rest. Texts are cut. The
// path of each participant begins with the path of its recipe.
func pack(b []byte, r *inspect.Recipe) []byte {
	number := func(n int64) { b = binary.AppendVarint(b, n) }
	text := func(s string) {
		number(int64(len(s)))
		b = append(b, s...)
	}
	b = append(b, r.Path...)
	text(string(r.Kind))
	for _, n := range []int{r.Holders, r.Waiters, r.Items, r.MaxLeases} {
		number(int64(n))
	}
	participants := r.Participants[:min(len(r.Participants), maxParticipants)]
	for i, p := range participants {
		if len(b) > len(r.Path)+maxPacked {
			break
		}
		number(1) // one more
		text(strings.TrimPrefix(p.Path, r.Path))
		text(p.LockName)
		text(cut(p.Identity))
		ahead := 0 // the number of the participant that it waits for
		if len(p.WaitsFor) > 0 {
			ahead = i
			for ahead > 0 && participants[ahead-1].Path != p.WaitsFor[0] {
				ahead--
			}
		}
		holds := 0
		if p.Holds {
			holds = 1
		}
		for _, n := range []int64{int64(p.Position), p.Token, p.Session, millis(p.Since), int64(holds), int64(ahead)} {
			number(n)
		}
	}
	number(0)
	foreign := r.Foreign[:min(len(r.Foreign), maxForeign)]
	number(int64(len(foreign)))
	for _, name := range foreign {
		text(cut(name))
	}
	return b
}

// millis returns a time as ZooKeeper writes it.
func millis(t time.Time) int64 { return t.UnixMilli() } //nolint:forbidigo // no clock of this process

// packed is what is left to be read of a packed recipe.
type packed string

func (p *packed) number() int64 {
	n, size := binary.Varint([]byte((*p)[:min(len(*p), binary.MaxVarintLen64)]))
	*p = (*p)[size:]
	return n
}

func (p *packed) text() string {
	n := p.number()
	text := string((*p)[:n])
	*p = (*p)[n:]
	return text
}

// unpack stores the recipe of a row, and uses the memory of the one that was there.
func (r *row) unpack(into *inspect.Recipe) {
	p := packed(r.packed[len(r.path):])
	*into = inspect.Recipe{Path: r.path, Kind: inspect.Kind(p.text()), Participants: into.Participants[:0], Foreign: into.Foreign[:0]}
	for _, n := range []*int{&into.Holders, &into.Waiters, &into.Items, &into.MaxLeases} {
		*n = int(p.number())
	}
	for p.number() == 1 {
		path, lockName, identity := r.path+p.text(), p.text(), p.text()
		position := int(p.number())
		stat := framework.Stat{Czxid: p.number(), EphemeralOwner: p.number(), Ctime: p.number()}
		one := locks.ParticipantOf(path, lockName, []byte(identity), stat)
		one.Position, one.Holds = position, p.number() == 1
		if ahead := p.number(); ahead > 0 {
			one.WaitsFor = []string{into.Participants[ahead-1].Path}
		}
		if one.Token == 0 {
			one.Since = time.Time{} // it may not be read
		}
		into.Participants = append(into.Participants, one)
	}
	for range p.number() {
		into.Foreign = append(into.Foreign, p.text())
	}
}

func (r *row) recipe() (found inspect.Recipe) {
	r.unpack(&found)
	return found
}

// rowOf returns the row of a recipe. It shares the memory of a row of the last picture that says the same.
func rowOf(r *inspect.Recipe, buffer *[]byte, last []row) row {
	*buffer = pack((*buffer)[:0], r)
	i, known := slices.BinarySearchFunc(last, r.Path, func(one row, path string) int { return strings.Compare(one.path, path) })
	var text string
	if known && last[i].packed == string(*buffer) {
		text = last[i].packed
	} else {
		text = string(*buffer)
	}
	one := row{path: text[:len(r.Path)], packed: text, held: never, waited: never, isLock: r.Kind.IsLock()}
	one.waiters = int32(min(r.Waiters, math.MaxInt32)) //nolint:gosec // it fits
	if p := longest(r.Participants, true); p != nil {
		one.held = millis(p.Since)
	}
	if p := longest(r.Participants, false); p != nil && r.Waiters > 0 {
		one.waited = millis(p.Since)
	}
	return one
}
