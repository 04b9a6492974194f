// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"fmt"
	"sync"
	"time"
)

// Request describes a request to a hook.
type Request struct {
	Index     int    // counts the requests that hooks of this server were asked about, from 1
	SessionID int64  // of the connection; in a connect request the session asked for, 0 for a new one
	Xid       int32  // the client's number for it; 0 in a connect request
	Op        OpCode // OpCreateSession for a connect request
	Path      string // of a multi, its first operation's; empty for a request about no path

	// Reads are the paths that an OpMultiRead reads. Clients of this module send one instead of
	// many OpGetData at the same time.
	Reads []string
}

// Fault is what becomes of a request. The zero Fault is [Pass].
//
// A request that is lost or ignored has not reached the server: it does not keep its session alive either. Where a
// connection is cut, answers to earlier requests still arrive.
type Fault struct {
	kind  faultKind
	delay time.Duration
	until <-chan struct{}
	code  code
	frame string
}

type faultKind uint8

const (
	faultPass faultKind = iota
	faultLoseRequest
	faultLoseReply
	faultNeverAnswer
	faultApplyNeverAnswer
	faultFail
	faultRespond
)

// The faults without a parameter.
var (
	// Pass serves the request as if there were no hook.
	Pass = Fault{}

	// LoseRequest cuts the connection instead of applying the request.
	LoseRequest = Fault{kind: faultLoseRequest}

	// LoseReply applies the request and cuts the connection before the reply, and before any event that it causes for
	// the same client.
	LoseReply = Fault{kind: faultLoseReply}

	// NeverAnswer ignores the request. The connection stays and later requests are served. After a connect request that
	// was ignored, they are ignored too.
	NeverAnswer = Fault{kind: faultNeverAnswer}

	// ApplyNeverAnswer applies the request and sends no reply. The connection stays, later requests are served and
	// events are sent.
	ApplyNeverAnswer = Fault{kind: faultApplyNeverAnswer}
)

// Delay serves the request after d. Later requests on the connection wait behind it; other connections do not. The
// session is kept alive only when the request is served.
func Delay(d time.Duration) Fault {
	return Fault{delay: d}
}

// HoldUntil serves the request when release is closed or receives a value. Like [Delay], it holds back this connection
// alone. It panics if release is nil.
func HoldUntil(release <-chan struct{}) Fault {
	if release == nil {
		panic("zkserver: HoldUntil a nil channel, expected one that releases the request")
	}
	return Fault{until: release}
}

// FailWith answers with an error code, such as -4 or -101, instead of applying the request. A connect request is answered
// as if the session had expired, whatever the code.
func FailWith(errorCode int32) Fault {
	return Fault{kind: faultFail, code: code(errorCode)}
}

// RespondWith applies the request and sends raw instead of its reply, byte for byte. A well-formed frame starts
// with its own length in four bytes.
func RespondWith(raw []byte) Fault {
	return Fault{kind: faultRespond, frame: string(raw)}
}

// String describes the fault, for the log.
func (f Fault) String() string {
	name := faultNames[f.kind]
	switch {
	case f.delay > 0:
		return "Delay(" + f.delay.String() + ")"
	case f.until != nil:
		return "HoldUntil"
	case f.kind == faultFail:
		return fmt.Sprintf("%s(%d)", name, f.code)
	case f.kind == faultRespond:
		return fmt.Sprintf("%s(%d bytes)", name, len(f.frame))
	}
	return name
}

var faultNames = [...]string{
	faultPass:             "Pass",
	faultLoseRequest:      "LoseRequest",
	faultLoseReply:        "LoseReply",
	faultNeverAnswer:      "NeverAnswer",
	faultApplyNeverAnswer: "ApplyNeverAnswer",
	faultFail:             "FailWith",
	faultRespond:          "RespondWith",
}

// Nth returns a hook that gives the k-th request of a type a fault, from 1, and passes all other requests. It panics if k is
// less than 1.
func Nth(k int, op OpCode, f Fault) func(Request) Fault {
	if k < 1 {
		panic(fmt.Sprintf("zkserver: Nth of request %d, expected 1 for the first", k))
	}
	seen := 0 // hooks do not overlap
	return func(r Request) Fault {
		if r.Op != op {
			return Pass
		}
		if seen++; seen != k {
			return Pass
		}
		return f
	}
}

// wait blocks for as long as the fault holds the request back. It returns false if the connection ends first.
func (f Fault) wait(ended <-chan struct{}) bool {
	var elapsed <-chan time.Time
	switch {
	case f.delay > 0:
		timer := time.NewTimer(f.delay)
		defer timer.Stop()
		elapsed = timer.C
	case f.until == nil:
		return true
	}
	select {
	case <-elapsed:
	case <-f.until:
	case <-ended:
		return false
	}
	return true
}

// hooks are the functions given to Intercept.
type hooks struct {
	mu   sync.Mutex // guards list
	list []*hook

	asking sync.Mutex // held while hooks run
	asked  int        // guarded by asking
}

type hook struct {
	decide func(Request) Fault
}

// ask returns the fault that the hooks want for r, and sets its index.
func (h *hooks) ask(r *Request) Fault {
	if len(h.current()) == 0 {
		return Pass
	}
	h.asking.Lock()
	defer h.asking.Unlock()
	list := h.current() // it may have changed while another call was under way
	if len(list) == 0 {
		return Pass
	}
	h.asked++
	r.Index = h.asked
	for _, one := range list {
		if f := one.decide(*r); f != Pass {
			return f
		}
	}
	return Pass
}

func (h *hooks) current() []*hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list
}
