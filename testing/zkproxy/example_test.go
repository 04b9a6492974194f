// SPDX-License-Identifier: Apache-2.0

package zkproxy_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
)

// Put a proxy in front of a server, and cut the connection after the first create was applied.
func Example() {
	server, err := zkserver.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	proxy, err := zkproxy.Start(server.Addr())
	if err != nil {
		panic(err)
	}
	defer proxy.Close()
	conn, _, err := zk.Connect([]string{proxy.Addr()}, 5*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		panic(err)
	}
	defer conn.Close()

	remove := proxy.Intercept(zkproxy.Nth(1, zkproxy.OpCreate, zkproxy.CutAfter))
	defer remove()
	_, err = conn.Create("/report", nil, 0, zk.WorldACL(zk.PermAll))
	fmt.Println("lost:", errors.Is(err, zk.ErrConnectionClosed))
	for errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) { // go-zookeeper connects again
		_, err = conn.Create("/report", nil, 0, zk.WorldACL(zk.PermAll))
	}
	fmt.Println("exists:", errors.Is(err, zk.ErrNodeExists))
	// Output:
	// lost: true
	// exists: true
}
