// SPDX-License-Identifier: Apache-2.0

// Package cache keeps a picture in memory of a znode and all below it, Apache Curator's
// CuratorCache. The picture follows the server through lost connections and new sessions.
//
// For one znode, [framework.Framework.Follow] may be all that is needed.
//
// # Keep a tree
//
//	c, err := cache.NewCuratorCache(client, "/services")
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	if err := c.Start(); err != nil {
//		return err
//	}
//	if err := c.Fresh(ctx); err != nil { // the picture is full
//		return err
//	}
//	data, found := c.Get("/services/a")
//	for path, data := range c.Stream() { ... } // as it is at this moment
//
// [CompressedData] decompresses. [DoNotClearOnClose] keeps the picture when the cache is closed.
// [WithStorage] uses the caller's storage.
//
// # Keep a part of a tree
//
//	c, err := cache.NewCuratorCache(client, "/services", cache.WithMaxDepth(2))
//	...
//	for name, data := range c.Children("/services/search") { ... } // costs as much as these children
//
// [SingleNodeCache] keeps the znode alone, [WithChildrenOnly] its children, and [WithMaxDepth]
// some levels. [WithSelector] asks functions which znodes to keep, and below which znodes to
// look. The cache does not read a znode that it does not keep, except that it lists a znode
// whose children it keeps.
//
// # Listen to changes
//
//	registration := c.Listen(func(e cache.Event) {
//		log.Print(e.Type, e.Path)
//	}, cache.For(cache.NodeCreated, cache.NodeDeleted), cache.AfterInitialized())
//	defer registration.Remove()
//
// A listener that is added before [CuratorCache.Start] gets an event for each znode found, then
// [Initialized], then the changes. Each listener has a goroutine of its own, which calls it in
// order, one event at a time; package listen has the contract. A listener may use the cache and
// close it.
//
// # Wait
//
//	err := c.WaitFor(ctx, func(c *cache.CuratorCache) bool { return c.Size() >= 3 })
//
// Fresh waits for your own writes, and for writes that another process has told you of:
//
//	err = client.Set(ctx, "/services/a", data)
//	err = c.Fresh(ctx) // now the picture has it, or a newer state
//
// # What is promised
//
//   - Every state of a path in the picture, and in an event, is a state that the server had.
//     The states of a path come in the server's order.
//   - No state of a path comes twice. The events of a path fit together: replayed from the
//     start, they give the picture.
//   - A state that lasts reaches the picture and the listeners. A state that is soon replaced
//     may be left out: of several quick changes, the last one counts.
//   - A znode that was deleted and created again is a change, even when its version is the
//     same. The cache compares the transactions that created and changed it.
//   - After any loss of connections or sessions the picture becomes equal to the server's tree
//     again, without help. Until then it stays as it was.
//   - The picture changes before the event: a listener finds the state of its event, or a newer
//     one, in the picture.
//
// # What is not promised
//
//   - There is no order between paths. Mostly parents come before their children.
//   - The picture lags behind the server, as every cache does, by about a round trip.
//     [CuratorCache.Fresh] waits for it to catch up.
//   - The picture leaves out a znode that the client may not read, that cannot be decompressed,
//     that exceeds [framework.WithMaxReplySize], or whose path [framework.ValidatePath] refuses.
//     The log names it. ZooKeeper may send no event for a changed access control list. So the
//     cache notices a znode that has become readable with its next change, or after the next
//     reconnect.
//   - The fields of a Stat about children and access control are as old as the data.
//
// # What it costs
//
// The server keeps one watch for a cache. The first fill reads each znode once, and lists each
// znode that has children. The cache reads at most 192 znodes at a time, and fewer if data is
// large, so that other requests of the client wait little. From ZooKeeper 3.6 on, up to 64 reads
// share a request; see [framework.Framework.Pipeline]. An event costs a read. On a server with
// one-shot watches, an event of a znode that the client may not read costs up to three.
//
// The persistent watch of a cache with limits covers the whole subtree all the same, unless the
// cache keeps a single znode. So the server sends events of znodes that are not kept, some 70
// bytes each. These events cost no request. If deep znodes change often,
// [framework.Framework.FollowChildren] or several caches of single znodes may cost less.
//
// After a reconnect the cache reads all data again if the data has up to 256 bytes on average.
// If data is longer, the cache compares the Stat of each znode, one small request each, and
// reads only data that has changed. While most comparisons find a change, the cache reads data
// without a comparison, so each znode still costs one request.
//
// A znode takes the bytes of its name and its data, about 20 for its Stat, and about 27 for its
// place in its folder. Its path, its Stat and its [ChildData] are made when a caller asks for them;
// the data is shared.
//
// Servers before ZooKeeper 3.6 have no persistent watches. There the cache sets one-shot
// watches, two for each znode; Curator calls this CuratorCacheBridge. It does the same if a
// server refuses persistent watches, and asks the server of each new connection again.
//
// # Metrics
//
// A client made WithMeterProvider measures its caches. Only [framework.WithPathAttribute] adds
// the attribute curator.path.
//
//	instrument                      kind, unit               attributes
//	curator.cache.events            counter {event}          curator.event
//	curator.cache.nodes             updowncounter {znode}
//	curator.cache.resync.duration   histogram s
//	curator.cache.unreadable        counter {read}
//
// curator.event is node_created, node_changed, node_deleted or initialized. A resync is the
// first fill, or the comparison after a gap in the events. The counters exist from the start.
//
// # From Curator
//
//	Curator                                     here
//	CuratorCache.build, builder                 NewCuratorCache with options
//	CuratorCache.bridgeBuilder                  NewCuratorCache, which chooses the bridge itself
//	SINGLE_NODE_CACHE, COMPRESSED_DATA,         SingleNodeCache, CompressedData,
//	  DO_NOT_CLEAR_ON_CLOSE                       DoNotClearOnClose
//	CuratorCacheStorage.standard,               NewStandardStorage,
//	  dataNotCached                               NewStorageWithoutData
//	start, close, get, size, stream             Start, Close, Get, Size, Stream
//	listenable().addListener                    Listen
//	CuratorCacheListener.builder                For, WithPathFilter, AfterInitialized
//	exceptionHandler                            the client's log
//	none                                        WaitFor, Fresh
//	NodeCache                                   SingleNodeCache, Framework.Follow
//	PathChildrenCache                           WithChildrenOnly, Framework.FollowChildren
//	TreeCache, setMaxDepth, setSelector         CuratorCache, WithMaxDepth, WithSelector
//	getCurrentChildren                          Children
//
// MIGRATING.md of the recipes has each option of these three.
package cache
