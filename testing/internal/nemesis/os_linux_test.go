// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// TestTiedProcessDiesWithItsParent kills a parent, which then cannot end what it has started.
func TestTiedProcessDiesWithItsParent(t *testing.T) {
	const parentEnv = "CURATOR_TEST_TIED_PARENT"
	if os.Getenv(parentEnv) != "" {
		child := exec.Command("sleep", "600")
		must.Get(startTied(child))(t)
		fmt.Println(child.Process.Pid)
		select {} // until it is killed
	}
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTiedProcessDiesWithItsParent$")
	parent.Env = append(os.Environ(), parentEnv+"=1")
	output := must.Get(parent.StdoutPipe())(t)
	require.NoError(t, parent.Start())
	var child int
	must.Get(fmt.Fscan(output, &child))(t)
	isAlive := func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", child))
		return err == nil && !strings.Contains(string(status), "State:\tZ")
	}
	require.True(t, isAlive())
	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	require.Eventually(t, func() bool { return !isAlive() }, 30*time.Second, time.Millisecond)
}
