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
// [SingleNodeCache] keeps the znode alone, [CompressedData] decompresses, [DoNotClearOnClose]
// keeps the picture when following ends, and [WithStorage] puts it where the caller likes.
//
// # Be told of changes
//
//	registration := c.Listen(func(e cache.Event) {
//		log.Print(e.Type, e.Path)
//	}, cache.For(cache.NodeCreated, cache.NodeDeleted), cache.AfterInitialized())
//	defer registration.Remove()
//
// A listener that is added before [CuratorCache.Start] is told all that is found, then
// [Initialized], then what changes. Package listen says how listeners are called: each on a
// goroutine of its own, in order, one event at a time. A listener may use the cache and close
// it.
//
// # Wait
//
//	err := c.WaitFor(ctx, func(c *cache.CuratorCache) bool { return c.Size() >= 3 })
//
// Read your own writes, and those that you were told about:
//
//	err = client.Set(ctx, "/services/a", data)
//	err = c.Fresh(ctx) // now the picture has it, or something newer
//
// # What is promised
//
//   - Every state that the picture and the listeners have of a path is one that the server had.
//     They come in the server's order.
//   - No state of a path is told twice. NodeCreated, NodeChanged and NodeDeleted of a path
//     follow one another as they can: what is told, played back, is the picture.
//   - What is true at the server and stays true is told. A state that lasts only shortly may
//     be left out: of several changes in a row, the last one counts. A znode that was deleted
//     and created again is a change, even when its version is the same; it is told by the
//     transactions that created and changed it.
//   - After any loss of connections or sessions the picture is that of the server again, by
//     itself. Meanwhile it stays what it was last.
//   - What is told has been stored before: a listener finds its event, or something newer, in
//     the picture.
//
// # What is not promised
//
//   - There is no order between paths. Mostly parents come before their children.
//   - The picture lags behind the server, as every cache does, by a round trip and what is on
//     its way. [CuratorCache.Fresh] is the way to know.
//   - A znode that the client may not read, or whose data cannot be decompressed, or whose data
//     exceed [framework.WithMaxReplySize], is not in the picture; the log says so. Where
//     ZooKeeper tells nothing of a changed access control list, a znode that has become
//     readable is found with its next change, or the next reconnect.
//   - Of a Stat, what is about children and access control is as old as the data.
//
// # What it costs
//
// The server keeps one watch for a cache. To fill, each znode is read once, and the list of
// children of each that has any: at most 192 requests are under way at a time, and fewer where
// data is large, so that other requests of the client wait little. An event costs a read. After
// a reconnect the stat of each znode is compared, one small request each, and only what has
// changed is read.
//
// Servers before ZooKeeper 3.6 have no persistent watches. There the cache sets one-shot
// watches by itself, two for each znode; Curator calls this CuratorCacheBridge. The same is
// done where a server refuses persistent watches.
//
// # Metrics
//
// A client made WithMeterProvider measures its caches. The attribute curator.path is there
// with [framework.WithPathAttribute] only.
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
//	CuratorCache.bridgeBuilder                  NewCuratorCache: the bridge is chosen by itself
//	SINGLE_NODE_CACHE, COMPRESSED_DATA,         SingleNodeCache, CompressedData,
//	  DO_NOT_CLEAR_ON_CLOSE                       DoNotClearOnClose
//	CuratorCacheStorage.standard,               NewStandardStorage,
//	  dataNotCached                               NewStorageWithoutData
//	start, close, get, size, stream             Start, Close, Get, Size, Stream
//	listenable().addListener                    Listen
//	CuratorCacheListener.builder                For, WithPathFilter, AfterInitialized
//	exceptionHandler                            the client's log
//	none                                        WaitFor, Fresh
//	NodeCache, PathChildrenCache, TreeCache     CuratorCache, and Framework.Follow, FollowChildren
package cache
