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
				add(noneStale, append(err, texts(p.wrongIn(r, e.At))...))
			case told:
				if streams[e.Owner] == nil {
					streams[e.Owner] = newStream(r.eras)
				}
				sightings, err := decode[[]sighting](e)
				add(noneReordered, err)
				for _, s := range sightings {
					streams[e.Owner].enter(r.eraAt(cmp.Or(s.At, e.At)))
					add(noneReordered, streams[e.Owner].tell(s))
				}
			case concluded:
				p, err := decode[treePicture](e)
				if streams[e.Owner] != nil {
					streams[e.Owner].enter(r.eraAt(e.At))
					p.Nodes = streams[e.Owner].conclude()
				}
				add(noneMissed, append(err, texts(p.wrongIn(r, e.At))...))
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

// wrongIn is wrong by the log of the era of a moment. A picture that is newer than something from before a restore is
// newer than the backup.
func (p *treePicture) wrongIn(r *roundReport, at int64) []mismatch {
	i, since := r.eraAt(at), p.Since
	defer func() { p.Since = since }()
	for _, before := range r.eras[:i] {
		if p.Since > r.eras[i].base && p.Since <= before.log.newest {
			p.Since = r.eras[i].base
		}
	}
	return p.wrong(r.eras[i].log.trees)
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
	era      int
	log      treeLog // of the era
	states   map[string]sighting
	places   map[string]int  // of the last state of each path in its log
	undone   map[string]bool // paths whose last state a restore has undone, so that the next may be of the backup
	troubled bool            // the next state may be the last one again
}

func newStream(eras []era) *stream {
	return &stream{eras: eras, log: eras[0].log.trees, states: make(map[string]sighting), places: make(map[string]int), undone: make(map[string]bool)}
}

// enter goes on in an era. A restore takes each path back to its state in the backup. The follower is told of that,
// unless it has been told of that state last.
func (s *stream) enter(era int) {
	for s.era < era {
		s.era++
		s.log = s.eras[s.era].log.trees
		for path := range s.places {
			at := s.log[path].at(s.eras[s.era].base)
			state, there := s.states[path]
			s.places[path], s.undone[path] = at, !s.log[path].is(at, state, there)
		}
	}
}

// replaces reports whether the last state that was told is the one that news replaces, by its transaction. A call that went
// on over a restore may have written the data of an undone state again, which caches tell no listener.
func (s *stream) replaces(path string, old int64) bool {
	before := s.states[path]
	again := func(c treeChange) bool { return c.zxid == old && !c.deleted && c.data == before.Data }
	return before.Mzxid == old || s.undone[path] && slices.ContainsFunc(s.log[path], again)
}

// conclude returns the states in the end. An undone state whose data was written again is the later one.
func (s *stream) conclude() (states []sighting) {
	for path, state := range s.states {
		if s.undone[path] {
			for i, c := range s.log[path][max(s.places[path], 0):] {
				if !c.deleted && c.data == state.Data {
					state.Mzxid, state.Czxid = c.zxid, s.log[path].creation(max(s.places[path], 0)+i)
				}
			}
		}
		states = append(states, state)
	}
	return states
}

// tell replays a sighting, and says what is wrong with it: it does not fit to what was told
// before, or the path had no such state after the last one.
func (s *stream) tell(news sighting) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("was told that %s is %s, %v, ", news.Path, news.Kind, news)+fmt.Sprintf(format, args...))
	}
	before, there := s.states[news.Path]
	switch news.Kind {
	case sawTrouble:
		s.troubled = true
		return nil
	case sawCreated:
		if there {
			say("and has it as %v", before)
		}
	case sawChanged, sawDeleted:
		if !there || !s.replaces(news.Path, news.Old) {
			say("which was %#x, and has it as %v", news.Old, before)
		}
	case sawState:
		_, told := s.places[news.Path]
		again := told && s.troubled && before.Mzxid == news.Mzxid
		s.troubled = false
		if again {
			return nil
		}
	default:
		say("which is no news")
	}
	s.states[news.Path] = news
	if news.Mzxid == 0 {
		delete(s.states, news.Path)
	}
	if place, what := s.next(news, there); what != "" {
		say("%s", what)
	} else {
		s.places[news.Path] = place
		delete(s.undone, news.Path)
	}
	return wrong
}

// next returns the place of a state in the log of its path. It must be behind the place of the
// state before.
func (s *stream) next(news sighting, there bool) (place int, wrong string) {
	log := s.log[news.Path]
	last, told := s.places[news.Path]
	switch {
	case !told:
		last = -1
	case s.undone[news.Path] && news.Mzxid == 0 && log.absent(last):
		return last, ""
	case s.undone[news.Path]:
		last-- // the state in the backup is news
	}
	if news.Mzxid == 0 {
		switch {
		case there:
			place = log.gone(last + 1)
		case !told:
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
