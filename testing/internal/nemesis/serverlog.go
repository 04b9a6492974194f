// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
)

// transaction is what the log of a server has for one zxid.
type transaction struct {
	session int64
	zxid    int64
	sum     uint32 // over all that it has
	time    int64  // milliseconds
	kind    int32
	record  []byte
}

// identity is what two servers compare to know whether they have the same transaction. Servers that
// have diverged can have different transactions for one zxid.
type identity struct {
	zxid int64
	sum  uint32
}

func (t transaction) identity() identity { return identity{t.zxid, t.sum} }

// Kinds of transactions, as in org.apache.zookeeper.ZooDefs.OpCode.
const (
	txnCreate          = 1
	txnDelete          = 2
	txnSetData         = 5
	txnMulti           = 14
	txnCreate2         = 15
	txnDeleteContainer = 20
	txnCloseSession    = -11
	txnError           = -1 // an operation that was refused
)

// readServerLog reads the files of one server.
func readServerLog(folder string) (map[identity]transaction, error) {
	files, err := filepath.Glob(filepath.Join(folder, "log.*"))
	if err != nil {
		return nil, fmt.Errorf("nemesis: transaction log: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("nemesis: transaction log: %s has no log.*", folder)
	}
	all := make(map[identity]transaction)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("nemesis: transaction log: %w", err)
		}
		transactions, err := decodeLog(data)
		if err != nil {
			return nil, fmt.Errorf("nemesis: transaction log: %s: %w", file, err)
		}
		for _, t := range transactions {
			all[identity{t.zxid, t.sum}] = t
		}
	}
	return all, nil
}

// decodeLog decodes a file of org.apache.zookeeper.server.persistence.FileTxnLog: a
// header, and then for each transaction a checksum, its length, itself, and 'B'. The file
// ends with zeros, or with a transaction that is cut short because the server was killed.
func decodeLog(data []byte) (all []transaction, err error) {
	const header, prefix = 16, 12
	if len(data) == 0 {
		return nil, nil // the server was killed before it wrote any
	}
	if len(data) < header || string(data[:4]) != "ZKLG" {
		return nil, errors.New("not a transaction log")
	}
	for data = data[header:]; len(data) > prefix; {
		sum, length := binary.BigEndian.Uint64(data), int(binary.BigEndian.Uint32(data[8:]))
		if length == 0 || length >= len(data)-prefix || data[prefix+length] != 'B' {
			return all, nil
		}
		entry := data[prefix : prefix+length]
		if uint64(adler32.Checksum(entry)) != sum {
			return all, nil
		}
		in := &jute{in: bytes.NewReader(entry)}
		t := transaction{sum: uint32(sum), session: in.long()}
		in.int() // cxid
		t.zxid, t.time, t.kind = in.long(), in.long(), in.int()
		if in.err != nil {
			return nil, fmt.Errorf("transaction after %d others: %w", len(all), in.err)
		}
		t.record = entry[length-in.in.Len():]
		all = append(all, t)
		data = data[prefix+length+1:]
	}
	return all, nil
}

// jute reads ZooKeeper's serialization. It keeps the first error.
type jute struct {
	in  *bytes.Reader
	err error
}

func (j *jute) read(into any) {
	if j.err == nil {
		j.err = binary.Read(j.in, binary.BigEndian, into)
	}
}

func (j *jute) int() (n int32)  { j.read(&n); return n }
func (j *jute) long() (n int64) { j.read(&n); return n }
func (j *jute) bool() (b bool)  { j.read(&b); return b }
func (j *jute) string() string  { return string(j.buffer()) }

// buffer reads bytes with their length before them; -1 is nil.
func (j *jute) buffer() []byte {
	n := int(j.int())
	if n < 0 || j.err != nil {
		return nil
	}
	if n > j.in.Len() {
		j.err = fmt.Errorf("%d bytes of %d", j.in.Len(), n)
		return nil
	}
	b := make([]byte, n)
	j.read(b)
	return b
}

// create reads a CreateTxn: path, data, ACL, whether it is ephemeral, the cversion of the parent with it.
func (j *jute) create() (node string, data []byte, ephemeral bool, version int32) {
	node, data = j.string(), j.buffer()
	for range j.int() {
		j.int() // permissions
		j.string()
		j.string()
	}
	return node, data, j.bool(), j.int()
}
