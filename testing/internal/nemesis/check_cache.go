// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// countPictures is how many pictures of caches were judged.
func countPictures(r *roundReport, spec lockSpec) (n int) {
	for _, events := range r.events {
		for _, e := range events {
			if e.Kind == pictured && e.Lock == spec.Name {
				n++
			}
		}
	}
	return n
}

// wrongPictures finds what followers of a tree were shown and told that the servers' log
// contradicts.
func wrongPictures(r *roundReport, spec lockSpec) (found []violation) {
	if r.log == nil {
		return nil
	}
	for _, client := range slices.Sorted(maps.Keys(r.events)) {
		streams := make(map[string]*stream)
		for _, e := range r.events[client] {
			if e.Lock != spec.Name {
				continue
			}
			add := func(p promise, wrong []string) {
				for _, what := range wrong {
					found = append(found, violation{promise: p, round: r, at: e.At, what: fmt.Sprintf("%s: %s %s", spec.Name, e.Owner, what)})
				}
			}
			switch e.Kind {
			case pictured:
				p, err := decode[treePicture](e)
				add(noneStale, append(err, texts(p.wrongIn(r, e.Called, e.At))...))
			case told:
				if streams[e.Owner] == nil {
					streams[e.Owner] = newStream(r.eras)
				}
				sightings, err := decode[[]sighting](e)
				add(noneReordered, err)
				for _, s := range sightings {
					add(noneReordered, streams[e.Owner].tell(s, r.eraAt(cmp.Or(s.At, e.At))))
				}
			case concluded:
				p, err := decode[treePicture](e)
				if streams[e.Owner] != nil {
					p.Nodes = streams[e.Owner].conclude(r.eraAt(e.At))
				}
				add(noneMissed, append(err, texts(p.wrongIn(r, 0, e.At))...))
			default: // is not about a tree
			}
		}
	}
	return found
}

// decode is the value of an event, and what is wrong with it.
func decode[T any](e event) (value T, wrong []string) {
	if err := json.Unmarshal([]byte(e.Value), &value); err != nil || e.Error != "" {
		wrong = []string{fmt.Sprintf("has recorded what cannot be read: %v %s", err, e.Error)}
	}
	return value, wrong
}

// mismatch is a path that a picture has otherwise than the servers' log.
type mismatch struct{ path, what string }

func texts(all []mismatch) (texts []string) {
	for _, m := range all {
		texts = append(texts, m.what)
	}
	return texts
}

// wrongIn is wrong by the log of the era of a moment. A call that began in an earlier era has promised what was there
// then: by the end of the call, a path has its state of then or a later one, and a restore may have come in between.
func (p *treePicture) wrongIn(r *roundReport, called, at int64) (all []mismatch) {
	first := r.eraAt(cmp.Or(called, at))
	for i := first; i <= r.eraAt(at); i++ {
		own := *p
		for _, before := range r.eras[:i] {
			// What is newer than something from before a restore is newer than the backup.
			if own.Since > r.eras[i].base && own.Since <= before.newest {
				own.Since = r.eras[i].base
			}
		}
		wrong := own.wrong(r.eras[i].log.trees)
		if i == first {
			all = wrong
			continue
		}
		all = slices.DeleteFunc(all, func(m mismatch) bool {
			return !slices.ContainsFunc(wrong, func(other mismatch) bool { return other.path == m.path })
		})
	}
	return all
}

// wrong returns the paths that are not as they were at the servers at or after the transaction
// of the picture.
func (p *treePicture) wrong(log treeLog) (all []mismatch) {
	has := make(map[string]sighting)
	for _, s := range p.Nodes {
		has[s.Path] = s
	}
	for _, path := range slices.Sorted(maps.Keys(log)) {
		if p.covers(path) {
			if s := has[path]; !log[path].has(s, p.Since) {
				all = append(all, mismatch{path, fmt.Sprintf("has %s as %v, which is not its state at %#x or later", path, s, p.Since)})
			}
			delete(has, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(has)) {
		all = append(all, mismatch{path, fmt.Sprintf("has %s, which there never was", path)})
	}
	return all
}

// String is a state in reports.
func (s sighting) String() string {
	if s.Mzxid == 0 {
		return "absent"
	}
	return fmt.Sprintf("%#x of %#x", s.Mzxid, s.Czxid)
}

// stream is what one follower was told, replayed.
type stream struct {
	eras     []era
	paths    map[string]*toldPath
	troubled bool // the next state may be the last one again
}

// toldPath is what a follower was told of a path last.
type toldPath struct {
	state sighting
	there bool
	place int // of the state in the log of its era; -1 is before all
	era   int
	told  bool

	// undone says that a restore has undone the state since. The place is the one of the state in the backup then.
	undone bool
}

func newStream(eras []era) *stream { return &stream{eras: eras, paths: make(map[string]*toldPath)} }

// logOf is the log of a path in the era that it has reached.
func (s *stream) logOf(path string) treePath { return s.eras[s.paths[path].era].log.trees[path] }

// enter goes on with a path in the next era. A restore has taken it back to its state in the backup. The follower is
// told of that, unless it has been told of that state last.
func (s *stream) enter(path string) {
	t := s.paths[path]
	t.era++
	if t.told {
		log := s.logOf(path)
		t.place = log.at(s.eras[t.era].base)
		t.undone = !log.is(t.place, t.state, t.there)
	}
}

// conclude returns the states in the end, in the last era. An undone state whose data was written again is the later one.
func (s *stream) conclude(era int) (states []sighting) {
	for path, t := range s.paths {
		for t.era < era {
			s.enter(path)
		}
		if !t.there {
			continue
		}
		state, log := t.state, s.logOf(path)
		for i := max(t.place, 0); t.undone && i < len(log); i++ {
			if !log[i].deleted && log[i].data == t.state.Data {
				state.Mzxid, state.Czxid = log[i].zxid, log.creation(i)
			}
		}
		states = append(states, state)
	}
	return states
}

// tell replays a sighting of an era, or of an earlier one that the follower was told of late. It says what is wrong with
// it: it does not fit to what was told before, or the path had no such state after the last one.
func (s *stream) tell(news sighting, era int) (wrong []string) {
	if news.Kind == sawTrouble {
		s.troubled = true
		return nil
	}
	t := s.paths[news.Path]
	if t == nil {
		t = &toldPath{place: -1}
		s.paths[news.Path] = t
	}
	place, again, wrong := s.try(t, news)
	for wrong != nil && t.era < era {
		s.enter(news.Path)
		place, again, wrong = s.try(t, news)
	}
	if news.Kind == sawState {
		s.troubled = false
	}
	if again {
		return nil
	}
	t.state, t.there = news, news.Mzxid != 0
	if place != nowhere {
		t.place, t.told, t.undone = place, true, false
	}
	return wrong
}

// nowhere is no place in a log.
const nowhere = -2

// try says what is wrong with a sighting in the era that its path has reached, and which place it has. Or it is the last
// state again, which a follower in trouble may be told.
func (s *stream) try(t *toldPath, news sighting) (place int, again bool, wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("was told that %s is %s, %v, ", news.Path, news.Kind, news)+fmt.Sprintf(format, args...))
	}
	switch news.Kind {
	case sawCreated:
		if t.there {
			say("and has it as %v", t.state)
		}
	case sawChanged, sawDeleted:
		if !t.there || !t.isBefore(news.Old, s.logOf(news.Path)) {
			say("which was %#x, and has it as %v", news.Old, t.state)
		}
	case sawState:
		if t.told && s.troubled && t.state.Mzxid == news.Mzxid {
			return t.place, true, nil
		}
	default:
		say("which is no news")
	}
	place, what := t.next(news, s.logOf(news.Path))
	if what != "" {
		say("%s", what)
		place = nowhere
	}
	return place, false, wrong
}

// isBefore reports whether the last state that was told is the one of this transaction, which news replaces. A call that
// went on over a restore may have written the data of an undone state again, which caches tell no listener.
func (t *toldPath) isBefore(old int64, log treePath) bool {
	again := func(c treeChange) bool { return c.zxid == old && !c.deleted && c.data == t.state.Data }
	return t.state.Mzxid == old || t.undone && slices.ContainsFunc(log, again)
}

// next returns the place of a state in the log of its path. It must be behind the place of the
// state before.
func (t *toldPath) next(news sighting, log treePath) (place int, wrong string) {
	last := t.place
	switch {
	case t.undone && news.Mzxid == 0 && log.absent(last):
		return last, ""
	case t.undone:
		last-- // the state in the backup is news
	}
	if news.Mzxid == 0 {
		switch {
		case t.there:
			place = log.gone(last + 1)
		case !t.told:
			return -1, "" // there was no node yet, or no more
		default:
			return last, "and was told so before"
		}
		if place < 0 {
			return last, "which it was not after that"
		}
		return place, ""
	}
	place = log.find(news)
	switch {
	case place < 0 || !log.createdBy(place, news.Czxid):
		return last, "which it never was"
	case place <= last:
		return last, "which is older than what was told before, or the same"
	}
	return place, ""
}

// contradicted are the paths of trees that no worker has found, in the end, as the servers' logs
// have them.
func (r *roundReport) contradicted() (paths []string) {
	if r.log == nil {
		return nil
	}
	for _, spec := range r.record.Locks {
		var reads []treePicture
		for _, events := range r.events {
			for _, e := range events {
				if e.Kind == pictured && e.Lock == spec.Name && e.Owner == treeItself {
					p, _ := decode[treePicture](e) // wrongPictures has the error
					reads = append(reads, p)
				}
			}
		}
		paths = append(paths, agreed(reads, r.log.trees)...)
	}
	return paths
}

// agreed are the paths that all reads have otherwise than the log.
func agreed(reads []treePicture, log treeLog) (paths []string) {
	counts := make(map[string]int)
	for _, p := range reads {
		for _, m := range p.wrong(log) {
			counts[m.path]++
		}
	}
	for path, n := range counts {
		if n == len(reads) && n > 1 {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
