// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestJavaClient drives ZooKeeper's own command line client.
func TestJavaClient(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Java")
	}
	java, classPath, err := ensemble.Installed()
	require.NoError(t, err, "-short leaves this test out")
	srv := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, java, "-cp", classPath, "org.apache.zookeeper.ZooKeeperMain", "-server", srv.Addr())
	cmd.Stdin = strings.NewReader(strings.Join([]string{
		"create /a one",
		"create -e -s /a/e- two",
		"create -c /c",
		"create -t 100000 /ttl x",
		"get -s -w /a",
		"addWatch -m PERSISTENT_RECURSIVE /c",
		"set /a changed",
		"create /c/x",
		"getEphemerals /",
		"getAllChildrenNumber /",
		"addauth digest bob:secret",
		"setAcl /a auth::cdrwa",
		"getAcl /a",
		"whoami",
		"removewatches /c",
		"sync /",
		"ls -s /",
		"delete /ttl",
		"deleteall /c",
		"quit",
	}, "\n") + "\n")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, want := range []string{
		"Created /a\n", "Created /a/e-0000000000", "Created /c\n", "Created /ttl", "dataVersion = 0",
		"type:NodeDataChanged path:/a", "type:NodeCreated path:/c/x", "[/a/e-0000000000]",
		"'digest,'bob:", "digest: bob", "Sync is OK", "[a, c, ttl, zookeeper]",
	} {
		require.Contains(t, string(output), want)
	}
	require.Equal(t, zkserver.Stats{Znodes: 6}, srv.Stats(), "/a is left")
}
