package scenarios

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckReturnsTheTests(t *testing.T) {
	tests := []string{"TestCheckReturnsTheTests", "../testnames.TestIn"}
	bug := Scenario{Curator: "a bug", Tests: []string{"../../recipes/leader.TestNoBeginningIsToldAfterTheClose"}, Defect: "leader-stale-beginning"}

	found := Check(t, []Scenario{{Curator: "TestClass.test", Tests: tests}}, []Scenario{bug})

	require.Len(t, found, 3)
	require.Equal(t, "TestIn", found["../testnames.TestIn"].Name.Name)
}
