// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// The suite: every verb with every option, as short programs in the tables of the files
// suite_*_test.go. What comes of each call is written down without what differs from
// run to run: times, transaction ids, session ids, UUIDs. It must be what
// testdata/suite.txt says, on zkserver and on real ZooKeeper. That file is there to be
// read, too: it says what each call does.
//
// After a change, see whether the new text is right:
//
//	go test ./framework -run TestSuite -update-suite && git diff framework/testdata

var updateSuite = flag.Bool("update-suite", false, "write testdata/suite.txt with what real ZooKeeper does")

const suiteFile = "testdata/suite.txt"

// row is one program of the suite.
type row struct {
	name string
	run  func(s *script)
}

var suite = slices.Concat(
	createRows, creationRows, readRows, watchRows, writeRows, deleteRows, pathRows, transactionRows, clientRows, sessionRows,
)

func TestSuite(t *testing.T) {
	t.Parallel()
	recorded := recordedSuite(t)
	if !*updateSuite {
		require.Len(t, recorded, len(suite), "what is written down has other rows")
	}
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.Containers)
		var all strings.Builder
		if server.Name() == "zkserver" { // with a reaper as quick as that of the real one
			server = zktest.Embedded(zktest.NewServer(t, quickReaper))
		}
		for _, r := range suite {
			t.Run(r.name, func(t *testing.T) {
				got := play(t, server, r)
				fmt.Fprintf(&all, "== %s\n%s\n", r.name, got)
				if !*updateSuite {
					require.Equal(t, recorded[r.name], got)
				}
			})
		}
		if *updateSuite && server.Name() == "zookeeper" {
			require.NoError(t, os.WriteFile(suiteFile, []byte(all.String()), 0o600))
		}
	})
}

// recordedSuite reads what is to come out, by the names of the rows.
func recordedSuite(t *testing.T) map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile(suiteFile))(t)
	recorded := map[string]string{}
	for section := range strings.SplitSeq(string(text), "== ") {
		if name, rest, found := strings.Cut(section, "\n"); found {
			recorded[name] = strings.TrimSuffix(rest, "\n")
		}
	}
	return recorded
}

func play(t *testing.T, server zktest.Backend, r row) string {
	t.Helper()
	chroot := server.ConnectString() + "/" + strings.Map(func(c rune) rune {
		if c == ' ' || c == '/' {
			return '-'
		}
		return c
	}, r.name)
	s := &script{T: t, server: server, connectString: chroot, ctx: t.Context()}
	s.f = s.client()
	must.Get(s.f.Create(s.ctx, "/node", []byte("data"), framework.CreatingParentsIfNeeded()))(t)
	r.run(s)
	return s.out.String()
}
