// SPDX-License-Identifier: Apache-2.0

package options_test

import (
	"errors"
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
