// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import "fmt"

func scriptCreate(s *stage) {
	p := s.root + "/a"
	s.do("a", 1, createBody(p, "one", 0), path)
	s.do("a", 1, createBody(p, "one", 0), path)
	s.do("a", 3, body{}.str(p).flag(false), statOf)
	s.do("a", 15, createBody(p+"/b", "", 0), path, statOf)
	s.do("a", 3, body{}.str(p).flag(false), statOf)
	s.do("a", 1, createBody(s.root+"/no/such", "", 0), path)
	s.do("a", 15, body{}.str(s.root+"/null").null().open().int(0), path, statOf)
	s.do("a", 4, body{}.str(s.root+"/null").flag(false), data, statOf)
	s.do("a", 15, body{}.str(s.root+"/noacl").str("").int(0).int(0), path, statOf)
	s.do("a", 15, body{}.str(s.root+"/noacl").str("").null().int(0), path, statOf)
	s.do("a", 1, createBody(s.root+"/e", "", 1), path)
	s.do("a", 1, createBody(s.root+"/e/child", "", 0), path)
	s.do("a", 1, createBody(s.root+"/e/child", "", 9), path)
}

func scriptBadPaths(s *stage) {
	for _, p := range []string{
		"", "x", "/", "//", s.root + "/", s.root + "//x", s.root + "/./x", s.root + "/..", s.root + "/.hidden",
		s.root + "/a\x00b", s.root + "/\x01", s.root + "/\x7f", s.root + "/\u0099", s.root + "/\ue000",
		s.root + "/\ufff0", s.root + "/\U0001f600", s.root + "/日本", s.root + "/ok ok", "/zookeeper", "relative/path",
	} {
		s.do("a", 1, createBody(p, "", 0), path)
		s.do("a", 1, createBody(p, "", 2), path)
		s.do("a", 3, body{}.str(p).flag(false), statOf)
		if p != "/" && p != "" { // whose data other scripts see
			s.do("a", 5, body{}.str(p).str("x").int(7), statOf)
		}
		s.do("a", 2, body{}.str(p).int(7))
		if p != s.root+"/\U0001f600" { // which Java answers in an encoding of its own
			s.do("a", 9, body{}.str(p), path)
		}
		s.do("a", 7, body{}.str(p).open().int(77), statOf)
		s.do("a", 14, multiOf(13, body{}.str(p).int(99)), results)
	}
}

func scriptFlags(s *stage) {
	for flags := int32(-1); flags <= 8; flags++ {
		for _, op := range []int32{1, 15, 19} {
			p := fmt.Sprintf("%s/%c%c", s.root, 'a'+flags+1, 'a'+op)
			if op == 19 && flags == 1 || op == 19 && flags == 3 {
				continue // an ephemeral container: whose it is, only its deletion would tell
			}
			s.do("a", op, createBody(p, "", flags), path)
			if op != 1 {
				s.lines = s.lines[:len(s.lines)-1]
			}
			s.do("a", 3, body{}.str(p).flag(false), statOf)
		}
		for _, ttl := range []int64{-1, 0, 1, 100_000, 1<<40 - 1, 1 << 40} {
			if flags != 5 && flags != 6 && ttl < 0 {
				continue // 3.8.0 applies it and then fails on it
			}
			s.do("a", 21, createBody(s.root+"/ttl", "", flags).long(ttl), path, statOf)
			s.do("a", 2, body{}.str(s.root+"/ttl").int(-1))
		}
	}
	s.do("a", 1, createBody(s.root+"/container", "", 4), path)
	s.do("a", 1, createBody(s.root+"/container/e", "", 1), path)
	s.do("a", 3, body{}.str(s.root+"/container").flag(false), statOf)
}

func scriptSequence(s *stage) {
	s.do("a", 1, createBody(s.root+"/x-", "", 2), path)
	s.do("a", 1, createBody(s.root+"/plain", "", 0), path)
	s.do("a", 1, createBody(s.root+"/plain", "", 0), path)
	s.do("a", 1, createBody(s.root+"/x-", "", 3), path)
	s.do("a", 2, body{}.str(s.root+"/plain").int(-1))
	s.do("a", 15, createBody(s.root+"/y-", "", 2), path, statOf)
	s.do("a", 1, createBody(s.root+"/", "", 2), path)
	s.do("a", 21, createBody(s.root+"/ttl-", "", 6).long(100_000), path, statOf)
	s.do("a", 3, body{}.str(s.root).flag(false), statOf)
	s.do("a", 14, multiOf(1, createBody(s.root+"/m-", "", 2), 1, createBody(s.root+"/m-", "", 3)), results)
	s.do("a", 14, multiOf(1, createBody(s.root+"/m-", "", 2), 2, body{}.str(s.root+"/none").int(-1)), results)
	s.do("a", 1, createBody(s.root+"/z-", "", 2), path)
	s.do("a", 3, body{}.str(s.root).flag(false), statOf)
}

func scriptData(s *stage) {
	p := s.root + "/a"
	s.do("a", 1, createBody(p, "one", 0), path)
	s.do("a", 4, body{}.str(p).flag(false), data, statOf)
	s.do("a", 5, body{}.str(p).str("second").int(-1), statOf)
	s.do("a", 5, body{}.str(p).str("third").int(0), statOf)
	s.do("a", 5, body{}.str(p).str("third").int(1), statOf)
	s.do("a", 5, body{}.str(p).null().int(-1), statOf)
	s.do("a", 4, body{}.str(p).flag(false), data, statOf)
	s.do("a", 5, body{}.str(s.root+"/none").str("").int(-1), statOf)
	s.do("a", 4, body{}.str(s.root+"/none").flag(true), data, statOf)
	s.do("a", 3, body{}.str(s.root).flag(false), statOf)
}

func scriptDelete(s *stage) {
	p := s.root + "/a"
	s.do("a", 1, createBody(p, "", 0), path)
	s.do("a", 1, createBody(p+"/b", "", 0), path)
	s.do("a", 2, body{}.str(p).int(-1))
	s.do("a", 2, body{}.str(p+"/b").int(3))
	s.do("a", 2, body{}.str(p+"/b").int(0))
	s.do("a", 3, body{}.str(p).flag(false), statOf)
	s.do("a", 2, body{}.str(p).int(5))
	s.do("a", 2, body{}.str(p).int(-1))
	s.do("a", 2, body{}.str(p).int(-1))
	s.do("a", 2, body{}.str(s.root+"/none/x").int(-1))
	for _, reserved := range []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/"} {
		s.do("a", 2, body{}.str(reserved).int(-1))
	}
}

func scriptChildren(s *stage) {
	for _, name := range []string{"/c", "/a", "/b", "/a/x"} {
		s.do("a", 1, createBody(s.root+name, "", 0), path)
	}
	s.do("a", 8, body{}.str(s.root).flag(false), names)
	s.do("a", 12, body{}.str(s.root).flag(false), names, statOf)
	s.do("a", 8, body{}.str(s.root+"/b").flag(false), names)
	s.do("a", 8, body{}.str(s.root+"/none").flag(true), names)
	s.do("a", 12, body{}.str(s.root+"/none").flag(true), names, statOf)
	s.do("a", 104, body{}.str(s.root), number)
	s.do("a", 104, body{}.str(s.root+"/b"), number)
	s.do("a", 104, body{}.str(s.root+"/none"), number)
	s.do("a", 12, body{}.str("/zookeeper").flag(false), names, statOf)
}

func scriptEphemerals(s *stage) {
	s.connect("b")
	s.do("b", 1, createBody(s.root+"/e1", "", 1), path)
	s.do("b", 15, createBody(s.root+"/e2-", "", 3), path, statOf)
	s.do("b", 103, body{}.str("/"), names)
	s.do("b", 103, body{}.str(s.root+"/e1"), names)
	s.do("b", 103, body{}.str(s.root+"/zz"), names)
	s.do("b", 103, body{}.str(" "), names)
	s.do("b", 103, body{}.str("\t/ "), names)
	s.do("b", 103, body{}.str(" "+s.root), names)
	s.do("b", 103, body{}.str(s.root+"/e1 "), names)
	s.do("b", 103, body{}.str("\u2003"), names)
	s.do("b", 103, body{}.null(), names)
	s.do("a", 103, body{}.str("/"), names)
	s.do("a", 3, body{}.str(s.root+"/e1").flag(true), statOf)
	s.do("a", 2, body{}.str(s.root+"/e2-0000000001").int(-1))
	s.do("b", 103, body{}.str("/"), names)
	s.do("b", -11, body{})
	s.events("b")
	s.events("a")
	s.do("a", 3, body{}.str(s.root).flag(false), statOf)
}

func scriptMulti(s *stage) {
	p := s.root + "/a"
	s.do("a", 14, multiOf(), results)
	s.do("a", 14, multiOf(
		1, createBody(p, "x", 0),
		1, createBody(p+"/b", "", 0),
		5, body{}.str(p).str("yy").int(0),
		13, body{}.str(p).int(1),
		2, body{}.str(p+"/b").int(0),
		5, body{}.str(p).str("zzz").int(1),
	), results)
	s.do("a", 3, body{}.str(p).flag(false), statOf)
	s.do("a", 14, multiOf(
		1, createBody(s.root+"/container", "", 4),
		19, createBody(s.root+"/container2", "", 4),
		19, createBody(s.root+"/plain", "", 0),
		21, createBody(s.root+"/ttl", "", 5).long(100_000),
		21, createBody(s.root+"/plain2", "", 0).long(5),
		1, createBody(s.root+"/e", "", 1),
		1, createBody(s.root+"/s-", "", 2),
	), results)
	s.do("a", 3, body{}.str(s.root).flag(false), statOf)
	s.do("a", 3, body{}.str(s.root+"/e").flag(false), statOf)
}

func scriptMultiFailures(s *stage) {
	p := s.root + "/a"
	s.do("a", 1, createBody(p, "x", 0), path)
	s.do("a", 14, multiOf(
		5, body{}.str(p).str("changed").int(-1),
		1, createBody(s.root+"/e", "", 1),
		2, body{}.str(p).int(1),
		1, createBody(s.root+"/s-", "", 2),
		2, body{}.str(s.root+"/none").int(-1),
		5, body{}.str(s.root).str("never").int(-1),
		13, body{}.str(s.root).int(0),
	), results)
	s.do("a", 4, body{}.str(p).flag(false), data, statOf)
	s.do("a", 3, body{}.str(s.root).flag(false), statOf)
	s.do("a", 103, body{}.str(s.root), names)
	s.do("a", 14, multiOf(13, body{}.str(p).int(5)), results)
	s.do("a", 14, multiOf(13, body{}.str(s.root+"/none").int(-1)), results)
	s.do("a", 14, multiOf(1, createBody("bad", "", 0)), results)
	s.do("a", 14, multiOf(1, createBody(s.root+"/t", "", 5)), results)
	s.do("a", 14, multiOf(1, createBody(p, "", 0), 1, createBody(s.root+"/t", "", 5)), results)
	s.do("a", 14, multiOf(1, createBody(s.root+"/t", "", 7)), results)
	s.do("a", 14, multiOf(21, createBody(s.root+"/t", "", 5).long(0)), results)
	s.do("a", 14, multiOf(1, createBody(s.root+"/e", "", 1), 1, createBody(s.root+"/e/x", "", 0)), results)
	s.do("a", 14, multiOf(4, body{}.str(p).flag(false), 2, body{}.str(p).int(-1)), results)
	s.do("a", 14, multiOf(99, body{}.str(p)), results)
	s.do("a", 12, body{}.str(s.root).flag(false), names, statOf)
}

func scriptMultiRead(s *stage) {
	p := s.root + "/a"
	s.do("a", 1, createBody(p, "x", 0), path)
	s.do("a", 22, multiOf(
		4, body{}.str(p).flag(false),
		8, body{}.str(s.root).flag(true),
		4, body{}.str(s.root+"/none").flag(true),
		8, body{}.str(s.root+"/none").flag(false),
		8, body{}.str(p).flag(false),
	), results)
	s.do("a", 22, multiOf(), results)
	s.do("a", 2, body{}.str(p).int(-1))
	s.events("a")
}
