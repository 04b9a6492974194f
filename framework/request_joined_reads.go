package framework

import (
	"bytes"
	"context"
	"errors"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

const (
	// minJoined is how many reads of data at least share a request. For fewer it saves little.
	minJoined = 4

	// askFrom is from how many reads on the client asks a server for its version. That takes a
	// connection of its own, once for each connection of the client.
	askFrom = 32

	// maxJoined is how many bytes of requests share one, so that long paths make none that a
	// server refuses.
	maxJoined = 16 << 10
)

var opMultiRead = operation{wire.OpMultiRead, "get", false}

// joinReads returns the calls with runs of reads of data made one request each, the multiRead of
// ZooKeeper 3.6, if the server is known to have it. A server does that in about a fifth of the
// time. Each read keeps its own result. The calls are returned as they are if none is joined.
// Otherwise server is the one that is known to have the request.
//
// A multiRead sets no watches and has no place for a list's Stat, so other reads stay what
// they are.
func (r *requests) joinReads(ctx context.Context, calls []*call) (joined []*call, server string) {
	joinable := 0
	for _, c := range calls {
		if c.isJoinable() {
			joinable++
		}
	}
	if joinable < minJoined {
		return calls, ""
	}
	if joinable >= askFrom {
		if _, err := r.checkVersion(ctx); err != nil {
			return calls, "" // they work everywhere, and fail by themselves if there is no connection
		}
	}
	server, limit := r.conduit.ReadsTogether()
	if limit < minJoined {
		return calls, ""
	}
	joined = make([]*call, 0, len(calls))
	for rest := calls; len(rest) > 0; {
		n, size := 0, 0
		for n < min(limit, len(rest)) && rest[n].isJoinable() && size+len(rest[n].body) <= maxJoined {
			size += len(rest[n].body)
			n++
		}
		if n < minJoined {
			n = max(n, 1)
			joined = append(joined, rest[:n]...)
		} else {
			joined = append(joined, r.join(rest[:n:n], size))
		}
		rest = rest[n:]
	}
	return joined, server
}

// isJoinable reports whether a call is a read of data that sets no watch.
func (c *call) isJoinable() bool {
	return c.code == wire.OpGetData && c.begin == nil && !c.optional && c.common == (common{})
}

// join returns one request for several reads of data, whose bodies have a size in bytes.
func (r *requests) join(reads []*call, size int) *call {
	const header = 9
	e := wire.NewEncoder(size + header*(len(reads)+1))
	for _, c := range reads {
		e.MultiOp(c.code)
		e.Raw(c.body)
	}
	e.MultiEnd()
	return &call{operation: opMultiRead, path: reads[0].path, body: e.Bytes(), parts: len(reads), decode: func(d *wire.Decoder) error {
		var first error
		for _, c := range reads {
			reply := nextReply(d)
			if d.Err() != nil {
				break
			}
			if err := r.replied(c, reply); err != nil && first == nil {
				first = &OpError{c.name, c.path, err}
			}
		}
		return first
	}}
}

// nextReply reads the next result of a multiRead. The reply shares no memory with the others, so
// that a caller who keeps one of them does not keep all.
func nextReply(d *wire.Decoder) conduit.Reply {
	if d.MultiResult() {
		return conduit.Reply{Code: d.Int32()}
	}
	return conduit.Reply{Body: bytes.Clone(d.DataReply())}
}

// refusesJoined reports whether reads failed because they were joined: together their data is too
// long, or the server does not have the request after all.
func (r *requests) refusesJoined(server string, err error) bool {
	if isUnimplemented(err) {
		_ = r.conduit.NoteTooOld(server) // the calls are made alone now
		return true
	}
	return errors.Is(err, ErrTooLarge)
}
