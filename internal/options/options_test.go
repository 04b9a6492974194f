// SPDX-License-Identifier: Apache-2.0

package options_test

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/options"
)

func TestApplyStopsAtTheFirstError(t *testing.T) {
	failed := errors.New("mine")
	var applied []error
	apply := func(o error) error {
		applied = append(applied, o)
		if errors.Is(o, failed) {
			return o
		}
		return nil
	}
	good := errors.New("good")
	require.NoError(t, options.Apply([]error{good, good}, apply))
	require.Len(t, applied, 2)
	require.ErrorIs(t, options.Apply([]error{good, failed, good}, apply), failed)
	require.Len(t, applied, 4)
	require.EqualError(t, options.Apply([]error{nil, good}, apply), "a nil option")
	require.Len(t, applied, 4, "nothing is applied after a nil option")
}

func TestIsNilKnowsTypedNil(t *testing.T) {
	var pointer *os.PathError
	for _, argument := range []any{nil, error(nil), pointer, error(pointer), (func())(nil)} {
		require.True(t, options.IsNil(argument), "%#v", argument)
	}
	for _, argument := range []any{0, "", &os.PathError{}, os.PathError{}, []int(nil)} {
		require.False(t, options.IsNil(argument), "%#v", argument)
	}
}
