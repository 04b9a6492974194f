// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReportCatchersCountsSubtests(t *testing.T) {
	for _, c := range []struct {
		failed []string
		want   string
	}{
		{nil, "-"},
		{[]string{"TestA"}, "TestA"},
		{[]string{"TestA/x"}, "TestA/x"},
		{[]string{"TestA/x", "TestA/y"}, "TestA (2 subtests)"},
		{[]string{"TestA/x", "TestA/y", "TestAB", "TestB/x"}, "TestA (2 subtests), TestAB, TestB/x"},
	} {
		require.Equal(t, c.want, catchers(c.failed))
	}
}
