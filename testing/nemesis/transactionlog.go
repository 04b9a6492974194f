package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// transactionLog is what an ensemble has committed, in the order in which it did.
type transactionLog struct {
	nodes map[string]*lockNode // every ephemeral node there was, by its path; the paths of locks do not come twice
	all   []*lockNode          // in the order of creation

	appended map[string]bool // the values that were written to guarded sets
}

// lockNode is the life of an ephemeral node.
type lockNode struct {
	path    string
	session int64
	czxid   int64
	deleted int64 // zxid; 0 is never
	ended   int64 // when the leader began to delete it: milliseconds of the wall clock, cut off
}

// transaction is what the log of a server has for one zxid.
type transaction struct {
	session int64
	zxid    int64
	time    int64 // milliseconds
	kind    int32
	record  []byte
}

// Kinds of transactions, as in org.apache.zookeeper.ZooDefs.OpCode.
const (
	txnCreate          = 1
	txnDelete          = 2
	txnSetData         = 5
	txnMulti           = 14
	txnCreate2         = 15
	txnDeleteContainer = 20
	txnCloseSession    = -11
)

// readTransactionLog reads the logs of the servers of an ensemble, each of which has a folder
// of its own below the given one. What a majority has was committed; what fewer have was
// proposed by a leader that fell before it was. The log is nil if there is no such folder.
func readTransactionLog(folder string) (*transactionLog, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("nemesis: transaction log: %w", err)
	}
	servers := slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Type().IsRegular() }) // such as what they printed
	seen := make(map[int64]int)                                                                     // zxid to the number of servers
	byZxid := make(map[int64]transaction)
	for _, server := range servers {
		own, err := readServerLog(filepath.Join(folder, server.Name()))
		if err != nil {
			return nil, err
		}
		for zxid, t := range own {
			seen[zxid]++
			byZxid[zxid] = t
		}
	}
	var committed []transaction
	for zxid, t := range byZxid {
		if seen[zxid] > len(servers)/2 {
			committed = append(committed, t)
		}
	}
	slices.SortFunc(committed, func(a, b transaction) int { return cmp.Compare(a.zxid, b.zxid) })
	return replay(committed)
}

// readServerLog reads the files of one server.
func readServerLog(folder string) (map[int64]transaction, error) {
	files, err := filepath.Glob(filepath.Join(folder, "log.*"))
	if err != nil {
		return nil, fmt.Errorf("nemesis: transaction log: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("nemesis: transaction log: %s has no log.*", folder)
	}
	all := make(map[int64]transaction)
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
			all[t.zxid] = t
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
		t := transaction{session: in.long()}
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

// replay applies the transactions, as far as they concern ephemeral nodes.
func replay(committed []transaction) (*transactionLog, error) {
	l := &transactionLog{nodes: make(map[string]*lockNode), appended: make(map[string]bool)}
	bySession := make(map[int64][]*lockNode)
	for _, t := range committed {
		if err := l.apply(t, bySession); err != nil {
			return nil, fmt.Errorf("nemesis: transaction %#x: %w", t.zxid, err)
		}
	}
	return l, nil
}

func (l *transactionLog) apply(t transaction, bySession map[int64][]*lockNode) error {
	in := &jute{in: bytes.NewReader(t.record)}
	switch t.kind {
	case txnCreate, txnCreate2:
		node, data, ephemeral := in.create()
		if strings.HasPrefix(node, setsFolder) {
			l.append(data)
		}
		if ephemeral && in.err == nil {
			n := &lockNode{path: node, session: t.session, czxid: t.zxid}
			l.nodes[node] = n
			l.all = append(l.all, n)
			bySession[t.session] = append(bySession[t.session], n)
		}
	case txnSetData:
		if path := in.string(); strings.HasPrefix(path, setsFolder) {
			l.append(in.buffer())
		}
	case txnDelete, txnDeleteContainer:
		l.end(l.nodes[in.string()], t)
	case txnMulti:
		for range in.int() {
			part := t
			part.kind, part.record = in.int(), in.buffer()
			if in.err == nil {
				in.err = l.apply(part, bySession)
			}
		}
	case txnCloseSession:
		for _, n := range bySession[t.session] {
			l.end(n, t)
		}
		delete(bySession, t.session)
	}
	return in.err
}

// append notes the newest value in the data of a part of a set.
func (l *transactionLog) append(data []byte) {
	if values := bytes.Fields(data); len(values) > 0 {
		l.appended[string(values[len(values)-1])] = true
	}
}

// end notes that a node was deleted, if it was there.
func (l *transactionLog) end(n *lockNode, t transaction) {
	if n != nil && n.deleted == 0 {
		n.deleted, n.ended = t.zxid, t.time
	}
}

// queue is the nodes that there were in one folder, in the order of their creation.
type queue struct {
	nodes []*lockNode
	ended []int64 // the latest end of the nodes up to each; never is forever
}

// queues are those of all folders.
func (l *transactionLog) queues() map[string]*queue {
	all := make(map[string]*queue)
	for _, n := range l.all {
		folder := path.Dir(n.path)
		q := all[folder]
		if q == nil {
			q = &queue{}
			all[folder] = q
		}
		ended := n.ended
		if n.deleted == 0 {
			ended = forever
		}
		if len(q.ended) > 0 {
			ended = max(ended, q.ended[len(q.ended)-1])
		}
		q.nodes, q.ended = append(q.nodes, n), append(q.ended, ended)
	}
	return all
}

// ahead are the nodes that were created before a zxid and not deleted at a moment, in
// milliseconds. Those that are far ahead have all ended, so there are few to look at.
func (q *queue) ahead(zxid, at int64) (all []*lockNode) {
	place, _ := slices.BinarySearchFunc(q.nodes, zxid, func(n *lockNode, zxid int64) int { return cmp.Compare(n.czxid, zxid) })
	for i := place - 1; i >= 0 && q.ended[i] > at; i-- {
		if other := q.nodes[i]; other.deleted == 0 || other.ended > at {
			all = append(all, other)
		}
	}
	return all
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

// create reads a CreateTxn: path, data, ACL, whether it is ephemeral.
func (j *jute) create() (node string, data []byte, ephemeral bool) {
	node, data = j.string(), j.buffer()
	for range j.int() {
		j.int() // permissions
		j.string()
		j.string()
	}
	return node, data, j.bool()
}
