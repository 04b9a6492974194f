// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
)

// switching reads compressed and uncompressed data.
type switching struct {
	framework.GzipCompressionProvider
	compresses bool
}

func (s switching) Compress(path string, data []byte) ([]byte, error) {
	if !s.compresses {
		return data, nil
	}
	return s.GzipCompressionProvider.Compress(path, data)
}

func (s switching) Decompress(path string, stored []byte) ([]byte, error) {
	if !bytes.HasPrefix(stored, []byte{0x1f, 0x8b}) { // the beginning of a gzip stream
		return stored, nil
	}
	return s.GzipCompressionProvider.Decompress(path, stored)
}

// A fleet that runs goes over to compression in two releases. Programs of the first release read both forms and write
// as before. Programs of the second one compress. At no time a program meets data that it cannot read.
func ExampleWithCompressionProvider() {
	server, err := zkserver.Start()
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	var fleet []*framework.Framework
	for _, opts := range [][]framework.Option{
		{}, // before
		{framework.WithCompression(), framework.WithCompressionProvider(switching{})},
		{framework.WithCompression(), framework.WithCompressionProvider(switching{compresses: true})},
	} {
		client, err := framework.Connect(ctx, server.Addr(), opts...)
		if err != nil {
			panic(err)
		}
		fleet = append(fleet, client)
	}
	old, first, second := fleet[0], fleet[1], fleet[2]
	for _, neighbours := range [][2]*framework.Framework{{old, first}, {first, old}, {first, second}, {second, first}} {
		if _, err := neighbours[0].Create(ctx, "/config", []byte("workers=8"), framework.OrSetData()); err != nil {
			panic(err)
		}
		data, err := neighbours[1].Get(ctx, "/config")
		fmt.Println(string(data), err)
	}
	if err := errors.Join(old.Close(), first.Close(), second.Close(), server.Close()); err != nil {
		panic(err)
	}
	// Output:
	// workers=8 <nil>
	// workers=8 <nil>
	// workers=8 <nil>
	// workers=8 <nil>
}
