// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	zkensemble "github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// TestQuotasAreWhatZooKeeperCounts: a server counts for a quota of this command from the moment it is there, warns above a
// soft limit and refuses above a hard one.
func TestQuotasAreWhatZooKeeperCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("needs ZooKeeper")
	}
	servers := zktest.NewEnsemble(t, 1, zkensemble.WithConfig("enforceQuota", "true"), zkensemble.WithProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn"))
	addr := servers.ConnectString()
	play(t, addr, `
$ create -p /jobs/today first
/jobs/today
$ quota -count 4 -bytes 15 /jobs
limits  count=4,bytes=15
used    count=2,bytes=5
$ create /jobs/tomorrow second
/jobs/tomorrow
$ quota /jobs
limits  count=4,bytes=15
used    count=3,bytes=11
$ rm /jobs/today
$ quota /jobs
limits  count=4,bytes=15
used    count=2,bytes=6
$ create /jobs/a 123456
/jobs/a
`)
	warned := func() string {
		log, err := os.ReadFile(servers.Server(0).LogFile())
		require.NoError(t, err)
		return string(log)
	}
	require.NotContains(t, warned(), "Quota exceeded")
	play(t, addr, `
$ create /jobs/b 1234
/jobs/b
`)
	require.Contains(t, warned(), "Quota exceeded: /jobs [current bytes=16, softByteLimit=15]")
	play(t, addr, `
$ create /jobs/c
/jobs/c
`)
	require.Contains(t, warned(), "Quota exceeded: /jobs [current count=5, softCountLimit=4]")
	play(t, addr, `
$ quota -hard-count 6 -hard-bytes 20 /jobs
limits  count=4,bytes=15;byteHardLimit=20;countHardLimit=6
used    count=5,bytes=16
$ set /jobs/c 12345
[1] curatorctl: set /jobs/c: server error -125 (quota exceeded)
$ set /jobs/c 1234
$ create /jobs/d
/jobs/d
$ create /jobs/e
[1] curatorctl: create /jobs/e: server error -125 (quota exceeded)
$ quota /jobs
limits  count=4,bytes=15;byteHardLimit=20;countHardLimit=6
used    count=6,bytes=20
$ quota -hard-count -1 -count -1 /jobs
limits  count=-1,bytes=15;byteHardLimit=20;countHardLimit=-1
used    count=6,bytes=20
$ create /jobs/e
/jobs/e
$ quota -delete /jobs
$ set /jobs/e "a long text, for which there is no quota any more"
`)
	require.NotContains(t, strings.Join(strings.Fields(curatorctl(t, addr, "", "ls", "/zookeeper/quota").stdout), " "), "jobs")
}
