// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import "fmt"

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
