package testnames_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/testnames"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestIn(t *testing.T) {
	tests, err := testnames.In(".")
	require.NoError(t, err)
	require.Len(t, tests, 2, "TestMain is one")
	require.Equal(t, "TestIn", tests["TestIn"].Name.Name)

	_, err = testnames.In("testdata")
	require.EqualError(t, err, "testnames: testdata has no test files")
}
