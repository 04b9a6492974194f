// SPDX-License-Identifier: Apache-2.0

// Package must takes the error from a call in a test.
package must

import "github.com/stretchr/testify/require"

// T is a test, of package testing or of rapid.
type T interface {
	require.TestingT
	// Helper is as that of testing.TB.
	Helper()
}

// Get returns the value of a call, and fails the test for its error: must.Get(client.Get(ctx, path))(t).
func Get[V any](value V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// As returns the error of this type that err is or wraps, and fails the test if there is none.
func As[E error](t T, err error) (target E) {
	t.Helper()
	require.ErrorAs(t, err, &target)
	return target
}
