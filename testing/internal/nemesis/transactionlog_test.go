// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"hash/adler32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// entry is a transaction about a node, as a server logs it.
type entry struct {
	transaction
	path string
}

// put appends numbers, and texts with their lengths, as ZooKeeper serializes them.
func put(b *bytes.Buffer, all ...any) {
	for _, one := range all {
		if text, ok := one.(string); ok {
			put(b, int32(len(text)))
			b.WriteString(text)
			continue
		}
		if err := binary.Write(b, binary.BigEndian, one); err != nil {
			panic(err) // a buffer takes everything
		}
	}
}

// body is the transaction without its header.
func (e entry) body() string {
	if e.record != nil {
		return string(e.record)
	}
	var b bytes.Buffer
	switch e.kind {
	case txnCreate, txnCreate2:
		put(&b, e.path, "data", int32(1), int32(31), "world", "anyone", true, int32(e.zxid))
	case txnDelete, txnDeleteContainer:
		put(&b, e.path)
	case txnMulti:
		inner := e
		inner.kind = txnCreate2
		put(&b, int32(2), int32(13), "checked", inner.kind, inner.body())
	}
	return b.String()
}

// encodeLog is a file of a server's log.
func encodeLog(entries []entry) []byte {
	var file bytes.Buffer
	file.WriteString("ZKLG")
	put(&file, int32(2), int64(0))
	for _, e := range entries {
		var b bytes.Buffer
		put(&b, e.session, int32(1), e.zxid, e.time, e.kind)
		b.WriteString(e.body())
		put(&b, int32(1), int64(99)) // a digest
		put(&file, uint64(adler32.Checksum(b.Bytes())), b.String(), byte('B'))
	}
	return file.Bytes()
}

func saveLog(t *testing.T, folder string, entries []entry) {
	t.Helper()
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "log.1"), append(encodeLog(entries), make([]byte, 100)...), 0o600))
}

// readTransactionLog is the log of what readServed reads.
func readTransactionLog(folder string) (*transactionLog, error) {
	s, err := readServed(folder)
	if s == nil || err != nil {
		return nil, err
	}
	return s.log()
}

func TestTransactionLog(t *testing.T) {
	t.Parallel()
	// A refused transaction has what came before the refusal as if it had been applied.
	var refused bytes.Buffer
	before := entry{transaction{session: 2, zxid: 9, kind: txnCreate2}, "/l/refused"}
	put(&refused, int32(2), before.kind, before.body(), int32(txnError), "")
	entries := []entry{
		{transaction{session: 2, zxid: 9, kind: txnMulti, record: refused.Bytes()}, ""},
		{transaction{session: 1, zxid: 10, kind: txnCreate}, "/l/a"},
		{transaction{session: 2, zxid: 11, kind: txnMulti}, "/l/b"},
		{transaction{session: 3, zxid: 12, kind: txnDelete, time: 500}, "/l/a"},
		{transaction{session: 2, zxid: 13, kind: txnCloseSession, time: 600}, ""},
		{transaction{session: 3, zxid: 14, kind: txnCreate2}, "/l/c"},
	}
	folder := t.TempDir()
	saveLog(t, filepath.Join(folder, "1"), entries)
	saveLog(t, filepath.Join(folder, "2"), entries)
	saveLog(t, filepath.Join(folder, "3"), append(entries[:4:4], entry{transaction{session: 9, zxid: 20, kind: txnCreate}, "/l/never"}))
	l := must.Get(readTransactionLog(folder))(t)
	require.Equal(t, []*lockNode{
		{path: "/l/a", session: 1, czxid: 10, deleted: 12, by: 3, ended: 500},
		{path: "/l/b", session: 2, czxid: 11, deleted: 13, by: 2, closed: true, ended: 600},
		{path: "/l/c", session: 3, czxid: 14},
	}, l.all)

	// Servers that have diverged log different things under one number. That of the majority counts.
	saveLog(t, filepath.Join(folder, "1"), append(entries[:5:5], entry{transaction{session: 3, zxid: 14, kind: txnCreate2}, "/l/d"}))
	l = must.Get(readTransactionLog(folder))(t)
	require.Len(t, l.all, 2)
	saveLog(t, filepath.Join(folder, "3"), entries)
	l = must.Get(readTransactionLog(folder))(t)
	require.Equal(t, "/l/c", l.all[2].path)

	l = must.Get(readTransactionLog(filepath.Join(folder, "none")))(t)
	require.Nil(t, l)
	require.NoError(t, os.Mkdir(filepath.Join(folder, "4"), 0o700))
	_, err := readTransactionLog(folder)
	require.ErrorContains(t, err, "has no log.*")
}
