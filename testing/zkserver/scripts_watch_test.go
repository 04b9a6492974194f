// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import "fmt"

func scriptWatches(s *stage) {
	s.connect("b")
	p := s.root + "/a"
	s.do("b", 3, body{}.str(p).flag(true), statOf)
	s.do("b", 8, body{}.str(s.root).flag(true), names)
	s.do("a", 1, createBody(p, "", 0), path)
	s.events("b")
	s.do("b", 4, body{}.str(p).flag(true), data, statOf)
	s.do("b", 3, body{}.str(p).flag(true), statOf)
	s.do("a", 5, body{}.str(p).str("x").int(-1), statOf)
	s.do("a", 5, body{}.str(p).str("y").int(-1), statOf)
	s.events("b")
	s.do("b", 3, body{}.str(p).flag(true), statOf)
	s.do("a", 7, body{}.str(p).open().int(-1), statOf)
	s.do("b", 12, body{}.str(p).flag(true), names, statOf)
	s.do("a", 1, createBody(p+"/c", "", 0), path)
	s.events("b")
	s.do("b", 8, body{}.str(p).flag(true), names)
	s.do("b", 8, body{}.str(s.root).flag(true), names)
	s.do("b", 4, body{}.str(p+"/c").flag(true), data, statOf)
	s.do("b", 8, body{}.str(p+"/c").flag(true), names)
	s.do("a", 2, body{}.str(p+"/c").int(-1))
	s.do("a", 2, body{}.str(p).int(-1))
	s.events("b")
	s.do("a", 1, createBody(p, "", 0), path)
	s.events("b")

	// A client's own change: the event comes before the reply.
	s.do("a", 4, body{}.str(p).flag(true), data, statOf)
	s.do("a", 5, body{}.str(p).str("own").int(-1), statOf)
	s.do("a", 8, body{}.str("/").flag(true), names)
	s.do("a", 8, body{}.str(s.root).flag(true), names)
	s.do("a", 3, body{}.str(s.root+"/m").flag(true), statOf)
	s.do("a", 14, multiOf(1, createBody(s.root+"/m", "", 0), 2, body{}.str(s.root+"/m").int(-1)), results)
	s.do("a", 3, body{}.str(s.root+"/m").flag(true), statOf)
	s.do("a", 14, multiOf(1, createBody(s.root+"/m", "", 0), 13, body{}.str(s.root+"/m").int(9)), results)
	s.do("a", 1, createBody(s.root+"/m", "", 0), path)
}

func scriptPersistentWatches(s *stage) {
	s.connect("b")
	p := s.root + "/a"
	s.do("b", 106, body{}.str(s.root).int(0), number)
	s.do("a", 1, createBody(p, "", 0), path)
	s.do("a", 1, createBody(p+"/b", "", 0), path)
	s.do("a", 5, body{}.str(s.root).str("x").int(-1), statOf)
	s.do("a", 5, body{}.str(p).str("x").int(-1), statOf)
	s.events("b")
	s.do("a", 2, body{}.str(p+"/b").int(-1))
	s.do("a", 2, body{}.str(p).int(-1))
	s.events("b")
	s.connect("c")
	s.do("c", 106, body{}.str(s.root).int(1), number)
	s.do("c", 106, body{}.str(s.root).int(7), number)
	s.do("a", 1, createBody(p, "", 0), path)
	s.do("a", 1, createBody(p+"/b", "", 0), path)
	s.do("a", 5, body{}.str(p+"/b").str("x").int(-1), statOf)
	s.do("a", 2, body{}.str(p+"/b").int(-1))
	s.do("a", 5, body{}.str(s.root).str("x").int(-1), statOf)
	s.events("c")
	s.events("b")
	s.do("c", 106, body{}.str("/not/there").int(0), number)
	s.do("c", 18, body{}.str("/not/there").int(3))
	s.do("c", 18, body{}.str(s.root).int(3))
	s.do("c", 18, body{}.str(s.root).int(3))
	s.do("a", 2, body{}.str(p).int(-1))
	s.events("c")
	s.events("b")
}

func scriptRemoveWatches(s *stage) {
	p := s.root + "/a"
	s.do("a", 1, createBody(p, "", 0), path)
	for kind := int32(1); kind <= 3; kind++ {
		s.do("a", 17, body{}.str(p).int(kind))
		s.do("a", 18, body{}.str(p).int(kind))
		s.do("a", 4, body{}.str(p).flag(true), data, statOf)
		s.do("a", 8, body{}.str(p).flag(true), names)
		s.do("a", 17, body{}.str(p).int(kind))
		s.do("a", 18, body{}.str(p).int(kind))
		s.do("a", 18, body{}.str(p).int(kind))
		s.do("a", 5, body{}.str(p).str("x").int(-1), statOf)
		s.do("a", 1, createBody(fmt.Sprintf("%s/%c", p, 'a'+kind), "", 0), path)
	}
	s.do("a", 17, body{}.str(p).int(0))
	s.do("a", 18, body{}.str(p).int(9))
}

func scriptSetWatches(s *stage) {
	for _, name := range []string{"/same", "/changed", "/gone", "/parent", "/quiet"} {
		s.do("a", 1, createBody(s.root+name, "", 0), path)
	}
	s.connect("b")
	seen := s.client("a").must(s.tb, 11, body{}).zxid
	s.do("a", 5, body{}.str(s.root+"/changed").str("x").int(-1), statOf)
	s.do("a", 2, body{}.str(s.root+"/gone").int(-1))
	s.do("a", 1, createBody(s.root+"/parent/x", "", 0), path)
	s.do("a", 1, createBody(s.root+"/new", "", 0), path)
	under := func(list ...string) body {
		for i := range list {
			list[i] = s.root + list[i]
		}
		return body{}.strs(list...)
	}
	three := under("/same", "/changed", "/gone").join(under("/new", "/missing")).join(under("/quiet", "/parent", "/gone"))
	s.do("b", 101, body{}.long(seen).join(three))
	s.do("a", 5, body{}.str(s.root+"/same").str("x").int(-1), statOf)
	s.do("a", 5, body{}.str(s.root+"/changed").str("x").int(-1), statOf)
	s.do("a", 1, createBody(s.root+"/missing", "", 0), path)
	s.do("a", 1, createBody(s.root+"/quiet/x", "", 0), path)
	s.events("b")
	s.connect("c")
	s.do("c", 105, body{}.long(seen).join(three).join(under("/same")).join(under("/quiet")))
	s.do("a", 5, body{}.str(s.root+"/same").str("x").int(-1), statOf)
	s.do("a", 5, body{}.str(s.root+"/same").str("x").int(-1), statOf)
	s.do("a", 5, body{}.str(s.root+"/quiet/x").str("x").int(-1), statOf)
	s.events("c")
}
