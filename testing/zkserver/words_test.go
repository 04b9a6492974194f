// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// compareWords has two clients do the same at both servers, and compares what these tell of it: after each request what cons
// says of the client, and in the end what every word says, apart from what cannot be the same.
func compareWords(t *testing.T, apache, ours string) {
	t.Helper()
	told := tellsOf(t, ours)
	for word, want := range tellsOf(t, apache) {
		assert.Equal(t, want, told[word], word)
	}
}

// tellsOf returns what a server answers to each word, and to cons after each request.
func tellsOf(t *testing.T, addr string) map[string]string {
	t.Helper()
	nc := must.Get(dialTCP(addr))(t)
	t.Cleanup(func() { nc.Close() })
	c := must.Get(handshake(nc, connection{timeoutMs: 8000}))(t)
	answers := map[string]string{"handshake": tell(t, addr, "cons")}
	for i, r := range []struct {
		op   int32
		body body
	}{
		{11, body{}},
		{1, createBody("/a", "x", 0)},
		{15, createBody("/b", "", 0)},
		{19, createBody("/c", "", 4)},
		{21, createBody("/ttl", "", 5).long(100_000)},
		{1, createBody("/a", "", 0)},
		{1, createBody("bad", "", 0)},
		{2, body{}.str("/ttl").int(-1)},
		{2, body{}.str("/none").int(-1)},
		{20, body{}.str("/a")},
		{3, body{}.str("/a").flag(true)},
		{3, body{}.str("/none").flag(true)},
		{4, body{}.str("/a").flag(true)},
		{4, body{}.str("/none").flag(false)},
		{5, body{}.str("/b").str("y").int(-1)},
		{5, body{}.str("/b").str("y").int(9)},
		{6, body{}.str("/a")},
		{7, body{}.str("/a").open().int(-1)},
		{7, body{}.str("/a").open().int(9)},
		{8, body{}.str("/").flag(true)},
		{8, body{}.str("/none").flag(true)},
		{12, body{}.str("/").flag(true)},
		{9, body{}.str("/")},
		{13, body{}.str("/none").int(1)},
		{14, multiOf(13, body{}.str("/a").int(0))},
		{14, multiOf(13, body{}.str("/a").int(9))},
		{14, body{}.int(2)},
		{4, body{}.int(99)},
		{22, multiOf(4, body{}.str("/a").flag(false))},
		{100, body{}.int(0).str("digest").str("bob:secret")},
		{101, body{}.long(0).strs("/a").strs().strs()},
		{105, body{}.long(0).strs("/a").strs().strs().strs().strs()},
		{102, body{}.str("token")},
		{103, body{}.str("/")},
		{104, body{}.str("/")},
		{106, body{}.str("/w").int(0)},
		{107, body{}},
		{17, body{}.str("/w").int(3)},
		{17, body{}.str("/none").int(3)},
		{18, body{}.str("/w").int(3)},
		{18, body{}.str("/none").int(3)},
		{16, body{}.str("").str("").str("").long(-1)},
	} {
		must.Get(c.call(r.op, r.body))(t)
		answers[fmt.Sprintf("cons after request %d, of opcode %d", i, r.op)] = tell(t, addr, "cons")
	}
	for _, word := range []string{
		"ruok", "isro", "srvr", "stat", "conf", "dump", "wchs", "wchp", "wchc", "crst", "srst", "cons", "none",
	} {
		answers[word] = tell(t, addr, word)
	}
	for _, path := range []string{"/a", "/b", "/c"} {
		c.must(t, 2, body{}.str(path).int(-1))
	}
	c.must(t, -11, body{})
	return answers
}

// hidden is what cannot be the same: times, ports, ids, what was built when, where data are, and what depends on whether
// ZooKeeper has come to count an answer that has already arrived.
var hidden = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "CLIENT"},
	{regexp.MustCompile(`0x1[0-9a-f]{14}\b`), "SESSION"},
	{regexp.MustCompile(`\d expire at .*\n`), ""},
	{regexp.MustCompile(`Sets \(\d\)/\(\d\)`), "Sets"},
	{regexp.MustCompile(`version: .*`), "version: VERSION"},
	{regexp.MustCompile(`(Latency min/avg/max: |Received: |Sent: ).*`), "$1"},
	{regexp.MustCompile(`\[\d\]\(queued=\d`), "[N](queued=N"},
	{regexp.MustCompile(`(sent|est|lresp|\w+lat)=\d+`), "$1=N"},
	{regexp.MustCompile(`(data\w+|clientPort|maxClientCnxns)=.*`), "$1=SET"},
}

// tell asks with a word, and hides what cannot be the same. Connections come in the order of their lines.
func tell(t *testing.T, addr, word string) string {
	t.Helper()
	answer := must.Get(ask(addr, word))(t)
	for _, h := range hidden {
		answer = h.pattern.ReplaceAllString(answer, h.with)
	}
	lines := strings.SplitAfter(answer, "\n")
	for i := 1; i < len(lines); i++ {
		if strings.Contains(lines[i-1], "/CLIENT") && strings.Contains(lines[i], "/CLIENT") && lines[i] < lines[i-1] {
			lines[i-1], lines[i] = lines[i], lines[i-1] // there are two
		}
	}
	return strings.Join(lines, "")
}

// TestWordsVersionDecidesTheDate, which was written in another way before 3.7.
func TestWordsVersionDecidesTheDate(t *testing.T) {
	for version, want := range map[string]string{
		"3.6.3": `^Zookeeper version: 3\.6\.3-\w+, built on \d\d/\d\d/\d{4} \d\d:\d\d GMT\n`,
		"3.7.0": `^Zookeeper version: 3\.7\.0-\w+, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC\n`,
	} {
		answer := must.Get(start(t, zkserver.WithoutListener(), zkserver.WithVersion(version)).FourLetterWord(t.Context(), "srvr"))(t)
		require.Regexp(t, want, answer)
	}
}

func TestFourLetterWord(t *testing.T) {
	srv := start(t, zkserver.WithoutListener())
	for word, want := range map[string]string{
		"ruok": "imok", "mntr": "zk_global_sessions\t0\n", "conf": "tickTime=500\n", "dump": "Session Sets (0)",
	} {
		require.Contains(t, must.Get(srv.FourLetterWord(t.Context(), word))(t), want)
	}
	_, err := srv.FourLetterWord(t.Context(), "kill")
	require.ErrorContains(t, err, `zkserver: four-letter word "kill"`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = srv.FourLetterWord(ctx, "ruok")
	require.ErrorIs(t, err, context.Canceled)
}
