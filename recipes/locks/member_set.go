package locks

// memberSet has the acquisitions of one process in one folder, by name. Most folders have
// one at a time, which needs no map. The zero value is empty.
type memberSet struct {
	only *member            // nil if there is none, or more is in use
	more map[string]*member // nil until there are two
}

// get returns the member with that name, or nil.
func (s *memberSet) get(name string) *member {
	if s.only != nil && s.only.name == name {
		return s.only
	}
	return s.more[name]
}

// put adds a member. It replaces one of the same name.
func (s *memberSet) put(m *member) {
	switch {
	case s.more != nil:
		s.more[m.name] = m
	case s.only == nil || s.only.name == m.name:
		s.only = m
	default:
		s.more = map[string]*member{s.only.name: s.only, m.name: m}
		s.only = nil
	}
}

// remove removes the member with that name, if there is one.
func (s *memberSet) remove(name string) {
	if s.only != nil && s.only.name == name {
		s.only = nil
	}
	delete(s.more, name)
}

func (s *memberSet) len() int {
	if s.only != nil {
		return 1
	}
	return len(s.more)
}

// all yields the members in no particular order.
func (s *memberSet) all(yield func(*member) bool) {
	if s.only != nil {
		yield(s.only)
		return
	}
	for _, m := range s.more {
		if !yield(m) {
			return
		}
	}
}
