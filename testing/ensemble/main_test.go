// SPDX-License-Identifier: Apache-2.0

package ensemble_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gocurator/curator/testing/ensemble"
)

// These turn the test binary into a process that starts an ensemble in the folder that is named and waits to be killed.
const (
	orphanDirEnv     = "ENSEMBLE_TEST_ORPHAN_DIR"
	orphanNetworkEnv = "ENSEMBLE_TEST_ORPHAN_NETWORK" // with a network
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphanDirEnv); dir != "" {
		os.Exit(orphan(dir))
	}
	goleak.VerifyTestMain(m)
}

// orphan tells the pid of the server it has started on standard output, and then waits for the SIGKILL that is to come.
func orphan(dir string) int {
	opts := []ensemble.Option{ensemble.WithDir(dir)}
	if os.Getenv(orphanNetworkEnv) != "" {
		opts = append(opts, ensemble.WithNetwork())
	}
	e, err := ensemble.Start(context.Background(), opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(e.Server(0).PID())
	_, _ = os.Stdin.Read(make([]byte, 1)) // the test keeps the other end open
	return 0
}
