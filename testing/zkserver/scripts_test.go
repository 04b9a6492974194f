// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
)

// scripts are what the comparison with Apache ZooKeeper plays. Where the installed 3.8.0 and later versions differ, the
// later ones are right and the difference is left out here: create2 in a multi, watches of two modes on one path,
// exists and watch events without the permission to read.
var scripts = []script{
	{"counts", scriptCounts}, // first, while all sessions are its own
	{"create", scriptCreate},
	{"badpaths", scriptBadPaths},
	{"flags", scriptFlags},
	{"sequence", scriptSequence},
	{"data", scriptData},
	{"delete", scriptDelete},
	{"children", scriptChildren},
	{"ephemerals", scriptEphemerals},
	{"multi", scriptMulti},
	{"multifailures", scriptMultiFailures},
	{"multiread", scriptMultiRead},
	{"acl", scriptACL},
	{"auth", scriptAuth},
	{"watches", scriptWatches},
	{"persistent", scriptPersistentWatches},
	{"removewatches", scriptRemoveWatches},
	{"setwatches", scriptSetWatches},
	{"system", scriptSystem},
	{"malformed", scriptMalformed},
	{"unknown", scriptUnknown},
	{"deletecontainer", scriptDeleteContainer},
	{"closing", scriptClosing},
	{"sessions", scriptSessions},
	{"expiry", scriptExpiry},
	{"pipeline", scriptPipeline},
	{"frames", scriptFrames},
}

func scriptSystem(s *stage) {
	for _, p := range []string{"/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		s.do("a", 4, body{}.str(p).flag(false), data, statOf)
		s.do("a", 6, body{}.str(p), acl, statOf)
		s.do("a", 5, body{}.str(p).str("x").int(77), statOf)
	}
	s.do("a", 16, body{}.str("").str("").str("").long(-1), data, statOf)
	s.do("a", 11, body{})
	s.do("a", 9, body{}.str("/no/such"), path)
	s.do("a", 20, body{}.str(s.root))
	s.do("a", 102, body{}.str("token"), data)
}

func scriptMalformed(s *stage) {
	for _, op := range []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 15, 17, 18, 19, 21, 22, 101, 103, 104, 105, 106} {
		s.connect("b")
		s.do("b", op, body{})
		s.do("b", op, body{}.str("/x"))
		s.do("b", op, body{}.int(1000).flag(true))
		s.do("b", 11, body{})
	}
	s.do("b", 9, body{}.null(), path)
	s.do("b", 5, body{}.null().str("x").int(-1), statOf)
	s.do("b", 7, body{}.null().open().int(-1), statOf)
	s.do("b", 13, body{}.null().int(0), statOf)
	s.do("b", 2, body{}.null().int(0))
}

func scriptUnknown(s *stage) {
	for _, op := range []int32{0, 10, 23, 99, 108, 1000, -2, -100} {
		s.connect("b")
		s.do("b", op, body{}.str("/x"))
		// Asked again at once, Apache may answer before it has ended the connection.
		_, err := s.client("b").receive()
		s.lines = append(s.lines, fmt.Sprintf("after op %d: connection ended: %v", op, ended(err)))
	}
}

// scriptPipeline sends before it receives: replies come in the order of requests, events where they happened.
func scriptPipeline(s *stage) {
	c := s.client("a")
	send := func(op int32, b body) {
		_, err := c.send(op, b)
		require.NoError(s.tb, err)
	}
	send(8, body{}.str(s.root).flag(true))
	for i := range 20 {
		send(1, createBody(s.root+"/x-", "", 2))
		send(8, body{}.str(s.root).flag(i%3 == 0))
		send(4, body{}.str(fmt.Sprintf("%s/x-%010d", s.root, i)).flag(i%2 == 0))
		send(5, body{}.str(fmt.Sprintf("%s/x-%010d", s.root, i/2)).str("x").int(-1))
		send(11, body{})
	}
	for range 1 + 5*20 {
		reply, err := c.receive()
		require.NoError(s.tb, err)
		reply.fields = reader{} // other scripts look at bodies
		s.record(fmt.Sprint("xid ", reply.xid), reply, nil)
	}
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
