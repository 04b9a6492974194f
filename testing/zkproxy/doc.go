// SPDX-License-Identifier: Apache-2.0

// Package zkproxy is a TCP proxy between ZooKeeper clients and a server. It understands the frames of the protocol. So
// a test can lose exactly the third reply, cut the connection after a create was applied, or make the network silent,
// slow or broken.
//
//	proxy, err := zkproxy.Start(server.Addr())
//	if err != nil {
//		t.Fatal(err)
//	}
//	t.Cleanup(func() { proxy.Close() })
//	conn, events, err := zk.Connect([]string{proxy.Addr()}, 5*time.Second)
//
// # Faults of the network
//
//	proxy.Cut()                        // reset all connections; new ones are welcome
//	proxy.Refuse(true)                 // reset new ones at once too, until Refuse(false)
//	proxy.Blackhole(zkproxy.ToClient)  // what the server says is lost; so are the ends of connections
//	proxy.CutOff()                     // the same in both directions, but pings are answered: a partition that no client has noticed
//	proxy.Heal()                       // connections that lost something are reset, others go on
//	proxy.CutNext(1)                   // the next connection is closed after its handshake: after Cut, a second disconnect
//	proxy.Pause(true)                  // nothing moves, nothing is lost, until Pause(false)
//	proxy.Delay(50 * time.Millisecond) // latency of each direction
//	proxy.Rate(10_000)                 // bytes per second of each direction of each connection
//	proxy.SetTarget(other.Addr())      // for connections to come: a follower that lags behind, say
//
// # Without sockets
//
// Sockets keep the fake clock of testing/synctest from advancing. A proxy [WithoutListener], with a server in memory as its target, works
// in a bubble together with them; a client gets [Proxy.Dial] as its dialer:
//
//	server, err := zkserver.Start(zkserver.WithoutListener())
//	proxy, err := zkproxy.Start("memory:2181", zkproxy.WithoutListener(), zkproxy.WithDialer(server.Dial))
//	client, err := framework.New("memory:2181", framework.WithDialer(proxy.Dial))
//
// There is no reset in memory: the other side reads the end of the connection.
//
// # Faults of single frames
//
// An interceptor sees every [Frame] and returns a [Verdict]. This one cuts the connection after a create was applied,
// so that the client does not know the outcome:
//
//	remove := proxy.Intercept(zkproxy.Nth(1, zkproxy.OpCreate, zkproxy.CutAfter))
//	defer remove()
//
// A client of package framework sends OpCreate2, for a container OpCreateContainer and for a znode with a time to live OpCreateTTL;
// OpCreate is go-zookeeper's.
//
// Any other condition is a function:
//
//	proxy.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
//		if f.Kind == zkproxy.Notification {
//			return zkproxy.Drop // watches never fire
//		}
//		return zkproxy.Pass
//	})
//
// To try a fault on each request of a call, count the requests. The proxy numbers them from 1, in the order in which it
// takes them up. A reply has the number of its request.
//
//	base := proxy.Requests()
//	proxy.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
//		if f.Direction == zkproxy.ToClient && f.Index == base+k {
//			return zkproxy.Drop
//		}
//		return zkproxy.Pass
//	})
//
// Interceptors run on the proxy's goroutines, without any of its locks. They run in order for one direction of one
// connection, and concurrently otherwise. An interceptor may block, which holds up only that direction. It may call any
// method of the proxy but Close, which waits for it.
//
// # What happened
//
// [Proxy.Log] lists in order the commands to the proxy, and what it did to each frame and connection. [Proxy.Await]
// waits for an entry of the list. Use it where a test would otherwise sleep:
//
//	_, err := proxy.Await(ctx, func(e zkproxy.Event) bool { return e.Action == zkproxy.Swallowed })
//
// # Frames
//
// A frame is a length (int32, big endian) and a body. The first frame in each direction of a connection is the
// handshake, a connect request or response without a header. A request begins with its xid and opcode (int32 each), a
// reply with xid (int32), zxid (int64) and error code (int32). Xid -1 is a notification, and -2 a ping. Every other
// xid, negative ones included, belongs to a request and comes back in its reply. So the proxy knows which request a
// reply answers. See ZooKeeper's zookeeper.jute and ClientCnxn.
//
// A connection that begins with a four letter word instead of a frame is copied as it is. Any other connection with a
// frame that is too long (see [WithMaxFrame]) or too short for its header is reset, and the log says [Garbage]. So the
// proxy forwards only frames that it understands. It does not forward a frame that is cut short by the end of its
// connection.
package zkproxy
