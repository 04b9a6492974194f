package zktest

import (
	"fmt"
	"os"
	"testing"
)

// MeasuredEnv names the environment variable with the file that [Measuredf] appends to.
const MeasuredEnv = "CURATOR_MEASURED"

// Measuredf logs what a test has measured or counted, and appends it as one line to the file that the
// environment variable of [MeasuredEnv] names, if it does: of a test that passes go test shows no log. It fails the
// test if that cannot be written.
func Measuredf(tb testing.TB, format string, args ...any) {
	tb.Helper()
	line := fmt.Sprintf(format, args...)
	tb.Logf("measured: %s", line)
	name := os.Getenv(MeasuredEnv)
	if name == "" {
		return
	}
	// One write, so that lines of several packages do not mix.
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			tb.Errorf("zktest: %v", err)
		}
	}()
	if _, err := fmt.Fprintf(file, "%s: %s\n", tb.Name(), line); err != nil {
		tb.Errorf("zktest: %v", err)
	}
}
