// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Decoders of reply fields.

func path(_ *stage, r *reader) string   { return r.str() }
func data(_ *stage, r *reader) string   { return fmt.Sprintf("data %q", r.str()) }
func number(_ *stage, r *reader) string { return fmt.Sprint(r.int()) }

func names(_ *stage, r *reader) string {
	list := r.strs()
	slices.Sort(list)
	return fmt.Sprintf("%q", list)
}

func acl(_ *stage, r *reader) string {
	var list []string
	for range max(r.int(), 0) {
		list = append(list, fmt.Sprintf("%d %s:%s", r.int(), r.str(), r.str()))
	}
	return fmt.Sprintf("%q", list)
}

func identities(_ *stage, r *reader) string {
	var list []string
	for range max(r.int(), 0) {
		list = append(list, r.str()+":"+r.str())
	}
	slices.Sort(list)
	return fmt.Sprintf("%q", list)
}

func statOf(s *stage, r *reader) string {
	st := r.stat()
	owner := "none"
	for _, name := range slices.Sorted(maps.Keys(s.clients)) {
		if st.owner != 0 && s.clients[name].session == st.owner {
			owner = name
			break
		}
	}
	if owner == "none" && st.owner != 0 {
		owner = "unknown"
	}
	return fmt.Sprintf("stat{c %s m %s p %s v %d cv %d av %d owner %s len %d children %d%s}",
		s.zxid(st.czxid), s.zxid(st.mzxid), s.zxid(st.pzxid), st.version, st.cversion, st.aversion,
		owner, st.dataLength, st.children, cmp.Or(s.time(st.czxid, st.ctime), s.time(st.mzxid, st.mtime)))
}

// time tells what is wrong with the time of a transaction, in milliseconds since the Unix epoch: every transaction has one,
// which is the same wherever it shows, and lies between the beginning and now for those of the script.
func (s *stage) time(zxid, ms int64) string {
	if s.times == nil {
		s.times = map[int64]int64{0: 0}
	}
	at, seen := s.times[zxid]
	s.times[zxid] = ms
	switch {
	case seen && at != ms:
		return fmt.Sprintf(" time of zxid %s %+d ms later", s.zxid(zxid), ms-at)
	case zxid >= s.base && (ms < s.began.UnixMilli() || ms > time.Now().UnixMilli()):
		return fmt.Sprintf(" time of zxid %s is %v", s.zxid(zxid), time.UnixMilli(ms))
	}
	return ""
}

func results(s *stage, r *reader) string {
	var list []string
	for r.err == nil {
		op, done, err := r.int(), r.flag(), r.int()
		one := fmt.Sprintf("{%d %t %d}", op, done, err)
		if done {
			list = append(list, one)
			break
		}
		switch op {
		case 1:
			one += path(s, r)
		case 15:
			one += path(s, r) + statOf(s, r)
		case 5:
			one += statOf(s, r)
		case 4:
			one += data(s, r) + statOf(s, r)
		case 8:
			one += names(s, r)
		case -1:
			one += number(s, r)
		}
		list = append(list, one)
	}
	return strings.Join(list, " ")
}

// replyFields tells what is in the reply to a request of each opcode.
var replyFields = map[int32][]func(*stage, *reader) string{
	1:   {path},
	3:   {statOf},
	4:   {data, statOf},
	5:   {statOf},
	6:   {acl, statOf},
	7:   {statOf},
	8:   {names},
	9:   {path},
	12:  {names, statOf},
	13:  {statOf},
	14:  {results},
	15:  {path, statOf},
	16:  {data, statOf},
	19:  {path, statOf},
	21:  {path, statOf},
	22:  {results},
	102: {data},
	103: {names},
	104: {number},
	106: {number},
	107: {identities},
}
