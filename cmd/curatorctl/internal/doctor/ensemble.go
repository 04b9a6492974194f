// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
)

// Server is what one server says about itself.
type Server struct {
	Address   string `json:"address"`
	Error     string `json:"error,omitempty"`
	Mode      string `json:"mode,omitempty"`
	Version   string `json:"version,omitempty"`
	Zxid      string `json:"zxid,omitempty"`
	Latency   string `json:"latency,omitempty"`
	TickTime  int    `json:"tickTime,omitempty"`
	SyncLimit int    `json:"syncLimit,omitempty"`

	// These are null where the server does not say them.
	Lag         *int64 `json:"lag"` // transactions behind the server that is farthest; unknown while they serve different leaders
	Connections *int   `json:"connections"`
	Outstanding *int   `json:"outstanding"`
	Nodes       *int   `json:"nodes"`
	Watches     *int   `json:"watches"`

	hangsUp bool // it ends connections without an answer

	zxid       int64
	mntr, conf map[string]string // what the words say; empty if they are not on its whitelist
}

// number reads a number, which is 0 if a server does not say it.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// known reads a number, which is nil if a server does not say it.
func known(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
}

// valueOf returns what a server says, 0 if it does not.
func valueOf(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

func askServer(ctx context.Context, client *framework.Framework, address string) Server {
	s := Server{Address: address}
	text, err := inspect.FourLetterWord(ctx, client, address, "srvr")
	if err != nil {
		s.Error = err.Error()
		s.hangsUp = s.Error == "no answer" || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		return s
	}
	f := Fields(text, ": ")
	s.Mode, s.Zxid, s.Latency = f["Mode"], f["Zxid"], f["Latency min/avg/max"]
	s.Version, _, _ = strings.Cut(f["Zookeeper version"], ",")
	s.Version, _, _ = strings.Cut(s.Version, "-$") // the build of Debian names a variable of its build tool
	s.Connections, s.Outstanding, s.Nodes = known(f["Connections"]), known(f["Outstanding"]), known(f["Node count"])
	s.zxid, _ = strconv.ParseInt(strings.TrimPrefix(s.Zxid, "0x"), 16, 64)
	if s.Mode == "" {
		s.Error = inspect.OneLine(strings.TrimSpace(text)) // such as: not currently serving requests
	}
	text, _ = inspect.FourLetterWord(ctx, client, address, "mntr")
	s.mntr = Fields(text, "\t")
	text, _ = inspect.FourLetterWord(ctx, client, address, "conf")
	s.conf = Fields(text, "=")
	s.Watches, s.TickTime, s.SyncLimit = known(s.mntr["zk_watch_count"]), number(s.conf["tickTime"]), number(s.conf["syncLimit"])
	return s
}

// Ask asks all servers of a client at a time, and compares them. The client need not be connected.
func Ask(ctx context.Context, client *framework.Framework) Ensemble {
	addresses := client.Servers()
	e := Ensemble{Servers: make([]Server, len(addresses))}
	var wg sync.WaitGroup
	for i, address := range addresses {
		wg.Go(func() { e.Servers[i] = askServer(ctx, client, address) })
	}
	wg.Wait()
	e.judge()
	return e
}

// Ensemble is all servers.
type Ensemble struct {
	Servers []Server `json:"servers"`
	Quorum  bool     `json:"quorum"`

	// SafeSessionTimeout is the shortest one with which StandardErrorPolicy is safe, in
	// milliseconds; 0 if the servers do not say.
	SafeSessionTimeout int `json:"safeSessionTimeout,omitempty"`
}

// judge compares the servers.
func (e *Ensemble) judge() {
	var newest int64
	for _, s := range e.Servers {
		newest = max(newest, s.zxid)
		e.Quorum = e.Quorum || Serves(s.Mode)
		if s.TickTime > 0 && s.Mode != "standalone" {
			e.SafeSessionTimeout = max(e.SafeSessionTimeout, 3*(s.SyncLimit+1)*s.TickTime/2)
		}
	}
	for i := range e.Servers {
		if s := &e.Servers[i]; s.Error == "" && s.zxid>>32 == newest>>32 {
			lag := newest - s.zxid
			s.Lag = &lag
		}
	}
}

// Fields reads lines of "name<separator>value".
func Fields(text, separator string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(line, separator); found {
			m[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return m
}

// Serves reports whether a server has a quorum. One without has no mode, or read-only.
func Serves(mode string) bool {
	return slices.Contains([]string{"leader", "follower", "observer", "standalone"}, mode)
}
