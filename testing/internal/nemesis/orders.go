// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/gocurator/curator/testing/zkproxy"
)

// clientConfig is what a client process is told when it starts: the first line of its
// standard input, in JSON.
type clientConfig struct {
	Name           string        `json:"name"`
	Servers        []string      `json:"servers"`
	SessionTimeout time.Duration `json:"sessionTimeout"`
	Locks          []lockSpec    `json:"locks"`
	Pause          time.Duration `json:"pause"` // between the turns of a worker, at most
	Seed           uint64        `json:"seed"`
	History        string        `json:"history"`                // the file to write
	Proxied        bool          `json:"proxied"`                // with a proxy for frames before each server
	Certificates   string        `json:"certificates,omitempty"` // PEM file with authority, certificate and key: TLS
	Guarded        bool          `json:"guarded,omitempty"`      // presents the credential, and only clients that do may use its nodes
}

// order is what it is told to do afterwards, one line each. It answers with a reply.
type order struct {
	Do   orderKind `json:"do"`
	Rate int       `json:"rate,omitempty"` // bytes a second

	// A fate is for the k-th frame from now on with the opcode.
	Op    int32 `json:"op,omitempty"`
	K     int   `json:"k,omitempty"`
	Which which `json:"which,omitempty"`
}

type orderKind string

const (
	doReset  orderKind = "reset"  // reset all connections
	doSlow   orderKind = "slow"   // limit what passes
	doFate   orderKind = "fate"   // lose a frame
	doHurry  orderKind = "hurry"  // give every acquisition a short time only
	doHeal   orderKind = "heal"   // end the above
	doExpire orderKind = "expire" // have the session closed by another connection
	doFinish orderKind = "finish" // one more acquisition each, then stop the workers
	doClose  orderKind = "close"  // close the client and end
)

// reply is the answer to an order.
type reply struct {
	Error   string   `json:"error,omitempty"`
	Session int64    `json:"session,omitempty"` // that was closed
	Stuck   []string `json:"stuck,omitempty"`   // locks that could not be acquired in the end
}

// which frame of a request is lost, and how.
type which string

const (
	requestCut     which = "request lost with the connection"
	replyCut       which = "reply lost with the connection"
	requestDropped which = "request never answered"
	replyDropped   which = "applied and never answered"
)

// fates are the verdicts of a proxy on them.
var fates = map[which]struct {
	direction zkproxy.Direction
	verdict   zkproxy.Verdict
}{
	requestCut:     {zkproxy.ToServer, zkproxy.CutBefore},
	replyCut:       {zkproxy.ToClient, zkproxy.CutBefore},
	requestDropped: {zkproxy.ToServer, zkproxy.Drop},
	replyDropped:   {zkproxy.ToClient, zkproxy.Drop},
}
