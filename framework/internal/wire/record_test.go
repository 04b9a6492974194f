// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/framework/internal/wire"
)

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i32 := rapid.Int32().Draw(t, "i32")
		i64 := rapid.Int64().Draw(t, "i64")
		flag := rapid.Bool().Draw(t, "flag")
		text := rapid.String().Draw(t, "text")
		data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")

		var e wire.Encoder
		e.Int32(i32)
		e.Int64(i64)
		e.Bool(flag)
		e.String(text)
		e.Buffer(data)
		e.Buffer(nil)

		d := wire.NewDecoder(e.Bytes())
		require.Equal(t, i32, d.Int32())
		require.Equal(t, i64, d.Int64())
		require.Equal(t, flag, d.Bool())
		require.Equal(t, text, d.String())
		require.Equal(t, append([]byte{}, data...), append([]byte{}, d.Buffer()...))
		require.Nil(t, d.Buffer())
		require.NoError(t, d.Err())
	})
}

func TestRecordCountsAreCheckedBeforeAllocating(t *testing.T) {
	for _, count := range []int32{math.MaxInt32, -2, math.MinInt32, 2} {
		var e wire.Encoder
		e.Int32(count)
		e.String("a")
		d := wire.NewDecoder(e.Bytes())
		require.Nil(t, d.Strings(), "count %d", count)
		require.ErrorIs(t, d.Err(), wire.ErrMalformed, "count %d", count)
	}
}

func TestRecordFailedDecoderStaysFailed(t *testing.T) {
	d := wire.NewDecoder([]byte{0, 0})
	require.Zero(t, d.Int32())
	first := d.Err()
	require.ErrorIs(t, first, wire.ErrMalformed)
	require.False(t, d.Bool())
	require.Equal(t, first, d.Err())
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 'a'})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, input []byte) {
		d := wire.NewDecoder(input)
		names := d.Strings()
		total := 0
		for _, n := range names {
			total += len(n)
		}
		if total > len(input) {
			t.Fatalf("%d bytes of strings out of %d bytes of input", total, len(input))
		}
	})
}
