// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"flag"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// tally counts what programs have come to, so that a check of nothing is noticed.
type tally struct{ programs, acquired, reentered, failed, lost atomic.Int64 }

func (s *tally) String() string {
	return fmt.Sprintf("%d programs: %d acquisitions (%d with ownership) and %d that were refused or cancelled, %d leases lost",
		s.programs.Load(), s.acquired.Load(), s.reentered.Load(), s.failed.Load(), s.lost.Load())
}

// requireEnough fails the test when there was too little of anything: when time was
// too short for rapid, or when programs do nothing. The floors are about half of what
// is usual.
func (s *tally) requireEnough(t *testing.T, r *recipe) {
	t.Helper()
	want, err := strconv.ParseInt(flag.Lookup("rapid.checks").Value.String(), 10, 64)
	require.NoError(t, err)
	if testing.Short() {
		want /= 5
	}
	require.GreaterOrEqual(t, s.programs.Load(), want)
	require.GreaterOrEqual(t, s.acquired.Load(), want)
	require.GreaterOrEqual(t, s.failed.Load(), want/4)
	if !r.crowd {
		require.GreaterOrEqual(t, s.lost.Load(), want/4)
	}
}
