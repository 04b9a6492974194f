package zktest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

func TestMeasured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "measured")
	t.Setenv(zktest.MeasuredEnv, file)
	zktest.Measuredf(t, "%d cells", 3)
	zktest.Measuredf(t, "%d%%", 20)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "TestMeasured: 3 cells\nTestMeasured: 20%\n", string(written))
}
