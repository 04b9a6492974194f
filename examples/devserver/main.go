// SPDX-License-Identifier: Apache-2.0

// Devserver is the embedded ZooKeeper server of package zkserver as a program, for
// development on a machine without Java. Its data is in memory.
//
//	go run ./examples/devserver -addr 127.0.0.1:2181
//
// Its first line is "listening on HOST:PORT", with the real port when -addr asks for port 0.
// From then on clients can connect. SIGINT and SIGTERM end it with status 0. The status is 1
// if the address is not available, and 2 if the flags are wrong.
//
// The default tick grants sessions of up to 20 seconds, long enough for every error policy.
// With a shorter tick sessions expire sooner, and clients warn that they are too short.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocurator/curator/testing/zkserver"
)

var (
	addr        = flag.String("addr", "127.0.0.1:2181", "`host:port` to listen on; port 0 is any free one")
	tick        = flag.Duration("tick", time.Second, "tickTime, a `duration`")
	smallest    = flag.Duration("min-session-timeout", 0, "minSessionTimeout, a `duration` (default 2 ticks)")
	largest     = flag.Duration("max-session-timeout", 0, "maxSessionTimeout, a `duration` (default 20 ticks)")
	connections = flag.Int("max-client-connections", 0, "maxClientCnxns, how `many` one address may have (default no limit)")
	request     = flag.Int("max-request", 0xfffff, "jute.maxbuffer, `bytes` of the largest request")
	memory      = flag.Int("max-memory", 256<<20, "`bytes` of memory for all connections, without the data of znodes")
	containers  = flag.Duration("container-check", time.Minute, "znode.container.checkIntervalMs, a `duration`")
	super       = flag.String("super-digest", "", "the super user's `digest`, super:base64(sha1(super:password)) (default none)")
	reconfig    = flag.Bool("reconfig", false, "reconfigEnabled: answer reconfig as a server that is alone")
	version     = flag.String("version", "3.8.0", "the `version` of ZooKeeper that it claims to be, and whose requests it knows")
)

func main() {
	flag.Parse() // exits with 2 if a flag is wrong
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "devserver:", err)
		if refused := new(os.SyscallError); errors.As(err, &refused) { // by the system
			os.Exit(1)
		}
		flag.Usage()
		os.Exit(2)
	}
}

// serve is the server until ctx ends.
func serve(ctx context.Context) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q, expected flags only", flag.Arg(0))
	}
	options := []zkserver.Option{
		zkserver.WithAddr(*addr), zkserver.WithTick(*tick), zkserver.WithSessionTimeouts(*smallest, *largest), zkserver.WithVersion(*version),
		zkserver.WithMaxClientConnections(*connections), zkserver.WithMaxFrame(*request), zkserver.WithMaxMemory(*memory),
		zkserver.WithContainerCheckInterval(*containers),
	}
	if *super != "" {
		options = append(options, zkserver.WithSuperDigest(*super))
	}
	if *reconfig {
		options = append(options, zkserver.WithReconfigEnabled())
	}
	server, err := zkserver.Start(options...)
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\ndata is in memory only; Ctrl-C ends it\n", server.Addr())
	<-ctx.Done()
	return server.Close()
}
