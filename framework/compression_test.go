// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// javaHello is "hello" as java.util.zip.GZIPOutputStream writes it: the header has
// neither a name nor a time, and names no operating system.
const javaHello = "1f8b0800000000000000" + "cb48cdc9c90700" + "86a61036" + "05000000"

func TestGzipCompressionProvider(t *testing.T) {
	var gz framework.GzipCompressionProvider
	java := must.Get(hex.DecodeString(javaHello))(t)
	data := must.Get(gz.Decompress("/a", java))(t)
	require.Equal(t, "hello", string(data))

	for name, damaged := range map[string][]byte{
		"cut": java[:len(java)-1], "checksum": append(bytes.Clone(java[:len(java)-5]), 0, 5, 0, 0, 0),
		"none": nil, "text": []byte("hello"), "header only": java[:10],
	} {
		_, err := gz.Decompress("/a", damaged)
		require.Error(t, err, name)
	}

	const size = 100_000
	bomb := must.Get(gz.Compress("/a", make([]byte, size)))(t)
	require.Less(t, len(bomb), size/100)
	data = must.Get(framework.GzipCompressionProvider{MaxSize: size}.Decompress("/a", bomb))(t)
	require.Len(t, data, size)
	_, err := framework.GzipCompressionProvider{MaxSize: size - 1}.Decompress("/a", bomb)
	require.ErrorContains(t, err, "99999")
	bomb = must.Get(gz.Compress("/a", make([]byte, framework.DefaultMaxDecompressedSize+1)))(t)
	_, err = gz.Decompress("/a", bomb)
	require.ErrorContains(t, err, "16777216")
}

func TestCompressionGzipWithoutABoundReadsAll(t *testing.T) {
	compressed := must.Get(framework.GzipCompressionProvider{}.Compress("/a", make([]byte, 1000)))(t)

	data, err := framework.GzipCompressionProvider{MaxSize: math.MaxInt}.Decompress("/a", compressed)

	require.NoError(t, err)
	require.Len(t, data, 1000)
	_, err = framework.GzipCompressionProvider{MaxSize: -1}.Decompress("/a", compressed)
	require.ErrorContains(t, err, "MaxSize -1, expected 0 or more")
}

// Data that was read as it is stored can be decompressed later.
func TestDecompress(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t))
	must.Get(f.Create(t.Context(), "/node", []byte("text"), framework.Compressed()))(t)
	stored := must.Get(f.Get(t.Context(), "/node"))(t)
	require.NotEqual(t, "text", string(stored))

	data, err := f.Decompress("/node", stored)

	require.NoError(t, err)
	require.Equal(t, "text", string(data))
	data = must.Get(f.Decompress("/node", nil))(t)
	require.Nil(t, data)
	_, err = f.Decompress("/node", []byte("text"))
	require.ErrorIs(t, err, framework.ErrCompression)
}

// Whatever takes data or returns it does so by default, and nothing that is not the caller's.
func TestCompressionByDefault(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, server zktest.Backend, plain *framework.Framework) {
		ctx := t.Context()
		f := zktest.Client(t, server, framework.WithCompression())
		text := []byte(strings.Repeat("text ", 1000))
		for range 2 {
			_, err := f.Create(ctx, "/folder/a", text, framework.CreatingParentContainersIfNeeded(), framework.Idempotent())
			require.NoError(t, err, "compared as stored")
		}
		require.NoError(t, f.Set(ctx, "/folder/a", text, framework.Idempotent(), framework.WithVersion(0)))
		must.Get(f.Create(ctx, "/folder/a", text, framework.OrSetData()))(t)
		results := must.Get(f.Bulk(ctx, []framework.Op{framework.CreateOp("/folder/b", text), framework.SetDataOp("/folder/a", text)}))(t)
		require.NoError(t, errors.Join(results[0].Err, results[1].Err))
		require.Equal(t, text, must.Get(f.Get(ctx, "/folder/b"))(t))
		children := must.Get(f.ChildrenData(ctx, "/folder", nil))(t)
		require.Len(t, children, 2)
		for _, child := range children {
			require.Equal(t, text, child.Data)
			require.Less(t, int(child.Stat.DataLength), 100)
		}
		for node, err := range f.Follow(ctx, "/folder/a") {
			require.NoError(t, err)
			require.Equal(t, text, node.Data)
			break
		}
		for node, err := range f.Follow(ctx, "/folder/a", framework.Undecompressed()) {
			require.NoError(t, err)
			require.Len(t, node.Data, int(node.Stat.DataLength))
			break
		}
		require.Empty(t, must.Get(plain.Get(ctx, "/folder"))(t))
	})
}
