package ensemble_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gocurator/curator/testing/ensemble"
)

// orphanDirEnv turns the test binary into a process that starts an ensemble in the folder it names and waits to be killed.
const orphanDirEnv = "ENSEMBLE_TEST_ORPHAN_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphanDirEnv); dir != "" {
		os.Exit(orphan(dir))
	}
	goleak.VerifyTestMain(m)
}

// orphan tells the pid of the server it has started on standard output, and then waits for the SIGKILL that is to come.
func orphan(dir string) int {
	e, err := ensemble.Start(context.Background(), ensemble.WithDir(dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(e.Server(0).PID())
	_, _ = os.Stdin.Read(make([]byte, 1)) // the test keeps the other end open
	return 0
}
