package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArchiveRefusesAFormerHolder(t *testing.T) {
	var a archive
	require.NoError(t, a.file(3, "first"))
	require.NoError(t, a.file(3, "first again"), "the same holder")
	require.NoError(t, a.file(8, "second"))
	require.EqualError(t, a.file(3, "late"), "archive: late refused: its token is 3, and 8 has been here")
	require.Equal(t, []string{"first", "first again", "second"}, a.reports)
}
