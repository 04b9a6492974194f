// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"time"

	"github.com/stretchr/testify/require"
)

// scripts are what the comparison with Apache ZooKeeper plays besides random programs: what these do not draw, or draw too
// seldom. Where the installed 3.8.0 and later versions differ, the later ones are right and the difference is left out here:
// exists and watch events without the permission to read.
var scripts = []script{
	{"counts", scriptCounts}, // first, while all sessions are its own
	{"badpaths", scriptBadPaths},
	{"flags", scriptFlags},
	{"ephemerals", scriptEphemerals},
	{"acl", scriptACL},
	{"system", scriptSystem},
	{"sessions", scriptSessions},
	{"expiry", scriptExpiry},
	{"frames", scriptFrames},
	{"super", scriptSuper},
	{"reconfig", scriptReconfig},
}

func scriptSystem(s *stage) {
	for _, p := range []string{"/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		s.do("a", 4, body{}.str(p).flag(false), data, statOf)
		s.do("a", 6, body{}.str(p), acl, statOf)
		s.do("a", 5, body{}.str(p).str("x").int(77), statOf)
		s.do("a", 2, body{}.str(p).int(-1))
	}
	s.do("a", 2, body{}.str("/").int(-1))
	s.do("a", 16, body{}.str("").str("").str("").long(-1), data, statOf)
	s.do("a", 11, body{})
	s.do("a", 9, body{}.str("/no/such"), path)
	s.do("a", 20, body{}.str(s.root))
	s.do("a", 102, body{}.str("token"), data)
}

func scriptCounts(s *stage) {
	s.counts()
	s.do("a", 104, body{}.str("/"), number)
	s.do("a", 104, body{}.str(""), number)
	s.connect("b")
	for _, c := range []string{"a", "b"} {
		s.do(c, 8, body{}.str(s.root).flag(true), names)
		s.do(c, 4, body{}.str(s.root).flag(true), data, statOf)
		s.do(c, 3, body{}.str(s.root).flag(true), statOf)
		s.do(c, 3, body{}.str(s.root+"/none").flag(true), statOf)
		s.do(c, 106, body{}.str(s.root+"/p").int(0), number)
	}
	s.do("b", 1, createBody(s.root+"/e", "four", 1), path)
	s.do("a", 1, createBody(s.root+"/f", "data", 0), path)
	s.do("a", 5, body{}.str(s.root+"/f").str("longer data").int(-1), statOf)
	s.counts()
	s.do("b", -11, body{})
	s.events("b") // its watches go when the connection does, after the reply
	s.counts()
}

func scriptFrames(s *stage) {
	s.connect("b")
	s.do("b", 1, createBody(s.root+"/x", "", 0), path)
	fits := 0xfffff - 8 - 4 - len(s.root+"/x") - 4 - 4
	s.do("b", 5, body{}.str(s.root+"/x").str(string(make([]byte, fits))).int(-1), statOf)
	s.do("b", 5, body{}.str(s.root+"/x").str(string(make([]byte, fits+1))).int(-1), statOf)
}

// scriptSweeps records what is left once the sweeper has had enough time. What is asked for before is not recorded: it
// may meet a sweep.
func scriptSweeps(s *stage) {
	for _, name := range []string{"/used", "/unused", "/full"} {
		s.do("a", 19, createBody(s.root+name, "", 4))
	}
	s.do("a", 1, createBody(s.root+"/plain", "", 4))
	s.do("a", 14, multiOf(1, createBody(s.root+"/inmulti", "", 4)))
	s.do("a", 14, multiOf(
		21, createBody(s.root+"/parent", "", 5).long(1),
		1, createBody(s.root+"/parent/x", "", 0)))
	s.do("a", 21, createBody(s.root+"/long", "", 5).long(100_000))
	for _, name := range []string{"/used", "/plain", "/inmulti", "/full"} {
		s.do("a", 1, createBody(s.root+name+"/x", "", 0))
	}
	for _, name := range []string{"/used", "/plain", "/inmulti"} {
		s.do("a", 2, body{}.str(s.root+name+"/x").int(-1))
	}
	// The last to become due is the last to go.
	s.do("a", 21, createBody(s.root+"/short", "", 5).long(500))
	require.Eventually(s.tb, func() bool {
		return s.client("a").code(s.tb, 3, body{}.str(s.root+"/short").flag(false)) != 0
	}, patience, 10*time.Millisecond)
	s.lines = nil
	reply := s.client("a").must(s.tb, 8, body{}.str(s.root).flag(false))
	s.lines = append(s.lines, names(s, &reply.fields))
}
