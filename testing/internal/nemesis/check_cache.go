package main

import (
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
				add(noneStale, append(err, texts(p.wrong(r.log.trees))...))
			case told:
				if streams[e.Owner] == nil {
					streams[e.Owner] = newStream(r.log.trees)
				}
				sightings, err := decode[[]sighting](e)
				add(noneReordered, err)
				for _, s := range sightings {
					add(noneReordered, streams[e.Owner].tell(s))
				}
			case concluded:
				p, err := decode[treePicture](e)
				if streams[e.Owner] != nil {
					p.Nodes = slices.Collect(maps.Values(streams[e.Owner].states))
				}
				add(noneMissed, append(err, texts(p.wrong(r.log.trees))...))
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
	log      treeLog
	states   map[string]sighting
	places   map[string]int // of the last state of each path in its log
	troubled bool           // the next state may be the last one again
}

func newStream(log treeLog) *stream {
	return &stream{log: log, states: make(map[string]sighting), places: make(map[string]int)}
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
		if !there || before.Mzxid != news.Old {
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
	}
	return wrong
}

// next returns the place of a state in the log of its path. It must be behind the place of the
// state before.
func (s *stream) next(news sighting, there bool) (place int, wrong string) {
	log := s.log[news.Path]
	last, told := s.places[news.Path]
	if !told {
		last = -1
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
