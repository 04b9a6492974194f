// SPDX-License-Identifier: Apache-2.0

package zkserver_test

// scriptDeleteContainer sends what only a server's own sweeper sends.
func scriptDeleteContainer(s *stage) {
	s.do("a", 19, createBody(s.root+"/c", "", 4), path, statOf)
	s.do("a", 1, createBody(s.root+"/c/x", "", 0), path)
	s.do("a", 2, body{}.str(s.root+"/c/x").int(-1))
	s.do("a", 20, body{}.str(s.root+"/c").int(-1))
	s.do("a", 20, body{}.str(s.root+"/c"))
	s.do("a", 20, body{}.str(s.root+"/none"))
	s.do("a", 20, body{})
	s.do("a", 3, body{}.str(s.root+"/c").flag(false), statOf)
	s.do("a", 2, body{}.str(s.root+"/c").int(-1))
}
