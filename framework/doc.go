// SPDX-License-Identifier: Apache-2.0

// Package framework is a ZooKeeper client modeled on Apache Curator's CuratorFramework. A
// program makes one client, passes it to the recipes, and closes the client when the program
// ends. The client keeps a session, repeats requests by a retry policy, and reports its state
// to listeners.
//
// The first four sections are what a program needs in its first hour.
//
// # Connect
//
// [Connect] makes a client and waits for its first connection. If no server can be reached,
// Connect logs a warning with the reason, and waits until ctx ends:
//
//	client, err := framework.Connect(ctx, "zk1:2181,zk2:2181,zk3:2181/orders",
//		framework.WithSessionTimeout(30*time.Second),
//		framework.WithRetryPolicy(retry.ExponentialBackoff(100*time.Millisecond, 5)))
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
// One client serves a whole process, and is safe for concurrent use. Without options it asks
// for a session of 60 s and repeats a request up to five times.
//
// The path at the end of the connection string is a chroot. All paths of the client, in
// arguments, results and events, are relative to it. The first create with
// [CreatingParentsIfNeeded] creates the chroot as well.
//
// [New] makes a client that is not connected, and [Framework.Start] connects it in the
// background.
//
// # Create, read, change, delete
//
// A verb takes a context, its arguments, and then options. The options have the names of
// Curator's builder methods. An option that makes no sense for a create, a read, a set or a
// delete does not compile there. A read, a transaction or a pipeline refuses an option that it
// cannot follow with [ErrInvalidOption], before anything is sent. OPTIONS.md has the list.
//
//	path, err := client.Create(ctx, "/jobs/job-", data,
//		framework.CreatingParentContainersIfNeeded(),
//		framework.WithMode(framework.EphemeralSequential),
//		framework.WithProtection())
//	data, err := client.Get(ctx, path, framework.StoringStatIn(&stat))
//	err = client.Set(ctx, path, data, framework.WithVersion(stat.Version))
//	err = client.Delete(ctx, path, framework.Guaranteed())
//
// [Framework.Exists] returns a nil Stat and no error for a missing znode.
// [Framework.Pipeline] makes several reads in one round trip.
//
// [Framework.UsingNamespace] returns a view of the client, on the same session, whose paths
// are all below one znode:
//
//	orders, err := client.UsingNamespace("orders")
//	data, err := orders.Get(ctx, "/1") // of /orders/1
//
// # Follow a znode
//
// [Framework.Follow] yields the state of a znode, and then each new state. It continues after
// a lost connection, and leaves nothing behind when the loop ends:
//
//	for node, err := range client.Follow(ctx, "/config") {
//		if err != nil {
//			log.Print(err) // node is the last known state
//			continue
//		}
//		if node.Exists() { apply(node.Data) }
//	}
//
// [Framework.FollowChildren] does the same for a list of children. To follow a tree, use
// package recipes/cache.
//
// # When a call fails
//
// Verbs return an [*OpError] with the verb and the path. errors.Is finds what went wrong, such
// as [ErrNoNode], [ErrNodeExists], [ErrBadVersion] or [ErrNotConnected]. Two questions decide
// what to do about it:
//
//   - [Retryable]: may the same call succeed later? The retry policy decides about these
//     errors.
//   - [OutcomeUnknown]: may the write have been applied although it failed? A write
//     that fails with any other error has certainly not been applied.
//
// The client repeats reads as the policy says, and writes that have certainly not reached a
// server. It repeats a write whose outcome is unknown only if that can do no harm. Such writes
// are a create [WithProtection], which looks for the znode first, a [Guaranteed] delete, and a
// write marked [Idempotent]. All other writes return the error.
//
// [WithRetry] sets another policy for one call. [Framework.Retry] repeats several calls
// together; they share one budget of retries:
//
//	err := client.Retry(ctx, func(ctx context.Context) error {
//		if err := client.Sync(ctx, "/config"); err != nil {
//			return err
//		}
//		data, err = client.Get(ctx, "/config")
//		return err
//	}, framework.WithRetry(retry.UntilElapsed(time.Minute, time.Second)))
//
// A call whose context ends fails with an [*InterruptedError]. The error matches
// context.Canceled or context.DeadlineExceeded, whatever the context's cause is. Its field
// Cause has the cause. errors.As finds a [*LostError] in the cause. Other errors of this
// package in the cause belong to other calls and do not match.
//
// If the client had sent the write of such a call, OutcomeUnknown is true. If not, the client
// will never send it. A create with protection and a guaranteed delete then clean up in the
// background and return [ErrCleanupPending].
//
// A request runs only in the session in which it was sent. With [InSession] it runs only in
// the session that the option names. With [InHistory] it runs only while the servers cannot have been
// restored since a read. All verbs accept InSession and InHistory. A pipeline and a transaction
// take them from a Retry around them. The policy retry.SessionFailed binds a call to the session
// in which it begins. The call fails with [ErrSessionExpired] when that session has ended.
//
// # All or nothing
//
//	results, err := client.Transact(ctx,
//		framework.CheckOp("/leader", 7),
//		framework.SetDataOp("/report", data),
//		framework.DeleteOp("/todo/1"))
//
// If the server refuses one operation, it applies none, and the error names that operation.
//
// # Watch
//
// A read can set a watch, which fires at the first change after the state that the read
// returned:
//
//	var watch *framework.Watch
//	data, err := client.Get(ctx, "/config", framework.Watched(&watch))
//	if err != nil {
//		return err // there is no watch
//	}
//	event, err := watch.Wait(ctx) // cancels the watch if ctx ends first
//	if err != nil {
//		return err
//	}
//	... // read again, even when event.Err is not nil
//
// To select on other channels as well, use [Watch.Fired], and call [Watch.Cancel] when you
// stop waiting. A client's watches of one kind for a path share one watch at the server. The
// client removes it there when the last of them is cancelled.
//
// A persistent watch survives events, lost connections and new sessions. It needs ZooKeeper
// 3.6. When events may have been missed, its listeners get an [EventResync]:
//
//	watch, err := client.AddWatch(ctx, "/config", framework.WatchPersistentRecursive)
//	...
//	defer watch.Cancel()
//	watch.OnEvent(func(e framework.Event) {
//		if e.Type == framework.EventResync { ... } // read again: changes may have been missed
//	})
//
// # Many paths
//
// [Framework.ChildrenData] reads the children of a znode with their data and Stats, and
// [Framework.Pipeline] makes any number of reads.
//
// [Framework.Bulk] runs many operations of any kind, a bounded number at a time, and returns a
// result and an error for each:
//
//	results, err := client.Bulk(ctx, []framework.Op{
//		framework.SetDataOp("/jobs/1", data), framework.DeleteOp("/jobs/2", framework.Quietly()), ...
//	})
//
// # The state of the connection
//
//	registration := client.OnConnectionState(func(s framework.ConnectionState) { ... })
//	defer registration.Remove()
//
// Listeners receive [Connected] once, and then [Suspended], [Reconnected] and [Lost] as the
// connection comes and goes. Package listen documents the order of calls. With [WithReadOnly]
// a listener may also receive [ReadOnly]: the client is connected to a server without a
// quorum, which answers reads. To shield a listener from a flapping connection, wrap it in a
// [NewCircuitBreakingConnectionStateListener].
//
// [Framework.Health] and [Framework.HealthHandler] report the current state and its reason.
// [Framework.Done] is closed when the client has ended for good.
//
// Work that must stop when the session ends takes a context of the session instead of a
// listener. The context ends without waiting for another goroutine to run:
//
//	ctx = client.Session().Context(framework.StandardErrorPolicy)
//
// Under [QuorumErrorPolicy] the client writes a heartbeat once per quarter of the session
// timeout, while the session has holds:
//
//	held, release, err := client.Session().Hold(ctx, framework.QuorumErrorPolicy)
//	if err != nil {
//		return err
//	}
//	defer release()
//
// A [Session] ends for its client at its [Session.Deadline] at the latest, even when no server
// can be reached to confirm it. The deadline is the time at which the newest acknowledged
// request was sent, plus the session timeout that the server has granted. The server may still
// have a session after its deadline. Then the client continues with a new Session value of the
// same id.
//
// # When a process is killed
//
// A session belongs to one process, from its beginning to its end. Another process may end it, and may do nothing else with it.
//
// A process that ends without [Framework.Close] leaves its session behind, until it times out. A guard ends such a
// session at once (see cmd/curatorctl, and [WithGuard]). So the next holder of a lock enters within
// milliseconds. What the process has sent elsewhere before its death may still arrive then: fence
// it, for example with the czxid of a znode. [EndSession] is what a guard does.
//
// # When the servers move
//
// The client resolves host names at every attempt to connect. If the names themselves can
// change, give the client an [EnsembleProvider] instead of a connection string:
//
//	provider, err := framework.NewDynamicEnsembleProvider("zk1:2181,zk2:2181/orders")
//	client, err := framework.Connect(ctx, "", framework.WithEnsembleProvider(provider))
//	...
//	err = provider.SetConnectionString("zk2:2181,zk3:2181")
//
// A [SRVEnsembleProvider] finds the servers by DNS. [WithEnsembleTracker] makes the client follow
// the configuration that the servers keep in /zookeeper/config, as [Framework.Reconfig] changes it,
// and [WithTrackedAddress] does so with TLS. [WithServerOrder] prefers servers, such as those of the same zone.
//
// Servers that come back empty, or from a backup, number their transactions again. Recipes and
// [Framework.Follow] then treat everything that they read as new. Code that compares numbers of
// Stats, such as versions, asks [Framework.History] whether they can be compared.
//
// # Callbacks
//
// The contexts of sessions and holds end before any callback is called. The client never calls
// a callback while it holds a lock, or on the goroutine that receives from the server. This
// table lists where each callback runs, and what a callback that blocks delays:
//
//	log handler (WithLogger)              a goroutine of its own          nothing; up to 1,024 records wait, the rest is lost
//	listener of states, watches           a goroutine of its own          its own later calls; package listen
//	Watch.OnFired                         a goroutine of its own          nothing
//	retry policy, ACL and compression     the goroutine of the call       that call
//	providers, function given to Retry,
//	spans and measurements of verbs
//	tracer and meter provider, callbacks  New, Start and Close            those calls
//	Dialer, EnsembleProvider              the connecting goroutine        the next connection
//	SASLMechanism                         a goroutine of its own          the connection, for 2/3 of the session timeout
//
// All callbacks may call the client. Callbacks in the last three rows must not close the
// client. A panic of a retry policy, a provider of lists, data, spans or measurements, or a
// function given to Retry reaches the caller. The client recovers all other panics. In the last
// two rows it also survives runtime.Goexit.
//
// # Authentication and TLS
//
// [WithAuth] presents credentials on every connection, before any request:
//
//	client, err := framework.Connect(ctx, servers,
//		framework.WithAuth("digest", []byte("user:"+password)))
//	_, err = client.Create(ctx, "/mine", nil,
//		framework.WithACL(framework.CreatorAllACL()...))
//
// [WithTLS] encrypts the connections and authenticates the servers and, with a client
// certificate, the client:
//
//	framework.WithTLS(&tls.Config{RootCAs: authorities, Certificates: own})
//
// [WithSASL] proves an identity by SASL, with the mechanism [DigestMD5], or Kerberos from the
// module framework/gssapi. The exchange comes before all requests, and before the credentials
// of WithAuth:
//
//	framework.WithSASL(framework.DigestMD5("alice", password))
//
// If all servers refuse a credential, the client ends: its state is [Lost], and every call
// fails with [ErrAuthFailed]. Secrets never appear in logs or errors.
//
// # Metrics and traces
//
// A client made [WithMeterProvider] or [WithTracerProvider] reports its operations through
// OpenTelemetry's API. Without these options it reports nothing, not even to the global
// providers, and its requests have no extra cost.
//
//	instrument                          kind, unit              attributes
//	curator.session.state               gauge                   server.address, server.port
//	curator.session.transitions         counter {transition}    curator.state, server.address, server.port
//	curator.session.lease.remaining     gauge s                 server.address, server.port
//	curator.client.operation.duration   histogram s             curator.operation, error.type
//	curator.client.retries              counter {retry}         curator.operation
//	curator.client.request.size         histogram By            curator.operation
//	curator.client.response.size        histogram By            curator.operation
//	curator.client.children             histogram {znode}
//	curator.client.transaction.operations   histogram {operation}
//	curator.client.size.warnings        counter {message}       curator.operation
//	curator.session.guarded             gauge, with a guard
//	curator.watch.active                updowncounter {watch}
//	curator.cleanup.pending             updowncounter {deletion}
//	curator.cleanup.oldest.age          gauge s
//
// The session state is the number of a [ConnectionState]. The attribute curator.state is the
// name of the state that was entered. An operation is a call of a verb with all its retries:
// create, delete, get, set, exists, children, sync, transact, add watch, get ACL,
// set ACL, reconfig, ephemerals, all children number, identities, or pipeline for several
// reads in one write. Sizes are of each request and its reply, and children of each list. A warning
// is a request or a reply above three quarters of [WithMaxRequestSize]; the log has one in ten
// minutes, with its path. Calls that are refused for their arguments are not measured. Background
// deletions appear only in curator.cleanup.pending. error.type is an [ErrorType]. Successful
// operations have no error.type.
//
//	span                                attributes
//	create znode, delete znode,         curator.operation, error.type, server.address, server.port;
//	get data, set data,                 curator.path with WithPathAttribute
//	check existence, list children,     events: retry (curator.attempt)
//	sync znode, transact operations,
//	pipeline reads, add watch,
//	get access control list,
//	set access control list,
//	reconfigure ensemble,
//	list ephemerals, count descendants,
//	list identities
//
// All of these are client spans. The status is an error with the error.type, except for the
// ordinary answers of a server about znodes: no_node, node_exists, bad_version, not_empty. No
// attribute, event or status contains data, a secret or the text of an error. Recipes add
// instruments and spans of their own, listed in their packages. Log records have the same
// keys, see [WithLogger].
//
// # For your own recipes
//
// The recipes of this module use only exported names. A recipe takes a [*Framework] and reads
// its user's settings from it. Recipes need the following names, and programs that use recipes
// do not:
//
//	Framework.RetryPolicy, ErrorPolicy, Logger, Telemetry    the settings of the client
//	Framework.MaxRequestSize                                 how much fits one request
//	Framework.Decompress                                     data that was read Undecompressed
//	Session.Hold, HoldDeadline, LossContext                  what a session guarantees to a holder
//	SequenceNumber, CompareSequence, IsProtectedName         names of sequential and protected znodes
//	ListingSiblingsIn                                        a create and the list of its folder in one round trip
//	Watch.OnFired, Watch.EndOnDeletion                       what ends with a watch
//	WatchQueue, PersistentWatch.Flush                        watches that act in stream order
//	ErrorType                                                the attribute error.type of telemetry
//	Framework.Servers, Framework.Dialer                      for tools that query servers directly
//
// # What is not promised
//
//   - A read may be behind the newest write of another client, even after
//     [Framework.Sync].
//   - A watch that has not fired does not prove that nothing has changed. The end of a
//     connection ends its watches.
//   - The deadline of a session is safe with a standalone server. It is safe with an ensemble
//     while the client's server is not cut off from the other servers. A server that is cut
//     off, follower or leader, acknowledges pings for a while. See [StandardErrorPolicy], and
//     [QuorumErrorPolicy], which counts only committed writes.
//   - A process that is paused past the deadline of its session cannot notice. Fence its
//     actions where they take effect, for example with the czxid of a znode.
//   - Background deletions end with the client. The servers delete the ephemeral znodes that
//     are left when the session ends.
//   - Servers before ZooKeeper 3.5 lack requests that this package uses. Servers before 3.6
//     also lack persistent watches and [Framework.Ephemerals], which fails with
//     [ErrUnsupported] there. So does [Framework.WhoAmI] before 3.7. ClickHouse Keeper lacks more; see SERVERS.md.
//
// # From Curator
//
//	Curator                                     here
//	CuratorFrameworkFactory.newClient           New, Connect
//	EnsembleProvider, FixedEnsembleProvider     WithEnsembleProvider, FixedEnsembleProvider
//	  .setConnectionString                      DynamicEnsembleProvider.SetConnectionString
//	ensembleTracker                             WithEnsembleTracker, off by default
//	zookeeperFactory                            WithDialer
//	jute.maxbuffer (Java)                       WithMaxRequestSize, WithMaxReplySize,
//	                                            WithReplyLimit, Framework.MaxRequestSize
//	start, close, blockUntilConnected           Framework.Start, Close, BlockUntilConnected
//	getState() == STOPPED                       Framework.Done, closed when the client has ended for good
//	maxCloseWaitMs                              none: Close takes six seconds at most
//	getConnectionStateListenable                Framework.OnConnectionState
//	canBeReadOnly, READ_ONLY                    WithReadOnly, ReadOnly
//	CircuitBreakingConnectionStateListener      the same name, around a listener
//	ConnectionStateListenerManagerFactory       a circuit breaker around each listener that needs one
//	getZookeeperClient().isConnected            Framework.State().IsConnected
//	getState, isStarted                         Framework.Health: ErrNotStarted, ErrClosed; Framework.Done
//	getCuratorListenable                        none: each watch has its own listeners
//	getZookeeperClient().getZooKeeper           none: WithAuth before the start, Session().Timeout()
//	getCurrentConfig                            Framework.Config, as the servers write it
//	buildTemp (CuratorTempFramework)            none: Connect and Close
//	threadFactory, waitForShutdownTimeoutMs     none: there are no threads, Close waits six seconds at most
//	zkClientConfig, SASL                        WithSASL, DigestMD5, and the module framework/gssapi
//	dontUseContainerParents                     WithoutContainerParents, or by itself where a server has no containers
//	TracerDriver, AdvancedTracerDriver          WithTracerProvider, WithMeterProvider, WithPathAttribute
//	logging, getUnhandledErrorListenable        WithLogger
//	runSafe, executors of listeners             none: each listener has a goroutine, see package listen
//	connectionStateErrorPolicy                  WithErrorPolicy
//	  Standard-, SessionConnectionStateErrorPolicy  StandardErrorPolicy, SessionErrorPolicy
//	  a policy of one's own                     SessionErrorPolicy, and a listener of OnConnectionState that releases
//	  none                                      QuorumErrorPolicy, WithServerTiming
//	simulatedSessionExpirationPercent           none: Lost comes by Session.Deadline
//	connectionTimeoutMs, sessionTimeoutMs       WithConnectionTimeout, WithSessionTimeout
//	retryPolicy                                 WithRetryPolicy, or WithRetry for one call; package retry
//	RetryLoop.callWithRetry                     Framework.Retry
//	ThreadLocalRetryLoop                        Framework.Retry, whose context carries the budget
//	SessionFailRetryLoop                        Session.Context, InSession, retry.SessionFailed
//	RetryPolicy.allowRetry(Throwable)           retry.Selector
//	authorization                               WithAuth, SetAuth
//	zookeeper.client.secure and ssl.* (Java)    WithTLS
//	namespace, usingNamespace                   Framework.UsingNamespace, or the chroot of the connection string
//	  getNamespace, usingNamespace(null)        Framework.Namespace, WithoutNamespace; FullPath for messages
//	aclProvider                                 WithACLProvider
//	ZooDefs.Perms, ZooDefs.Ids                  PermRead and others; OpenACL, ReadACL, CreatorAllACL
//	generateDigest                              DigestACL
//	schemaSet                                   none, see below
//	defaultData                                 the data argument; nil is no data
//	create()                                    Framework.Create
//	  .withMode, .withTtl, .withACL             WithMode, WithTTL, WithACL
//	  .withACL(list, true)                      WithACL, ApplyingACLToParents
//	  .orSetData, .idempotent                   OrSetData, Idempotent
//	  .withProtection                           WithProtection
//	  .creatingParentsIfNeeded                  CreatingParentsIfNeeded
//	  .creatingParentContainersIfNeeded         CreatingParentContainersIfNeeded
//	  .storingStatIn                            StoringStatIn
//	  none                                      InSession, ListingSiblingsIn
//	getData(), checkExists(), getChildren()     Framework.Get, Exists, Children
//	  .usingWatcher                             Watched, Watch.Wait; UNLIKE CURATOR'S, a one-shot watch ends at
//	                                            SUSPENDED, with EventNotWatching: read again, or use AddWatch
//	  none                                      StoringAbsenceIn; Framework.Pipeline, ReadData, ReadStat,
//	                                            ReadChildren; Framework.Bulk
//	AsyncCuratorFramework, ModeledFramework     goroutines; package typed
//	watchers().removeAll, .ofType, .locally     Watch.Cancel and PersistentWatch.Cancel, one by one
//	inBackground(callback)                      a goroutine
//	WatcherRemoveCuratorFramework               Watch.Cancel
//	watchers().add().withMode, PersistentWatcher  Framework.AddWatch, PersistentWatch.OnEvent
//	watchers().remove                           PersistentWatch.Cancel
//	setData(), delete()                         Framework.Set, Delete
//	  .withVersion                              WithVersion
//	  .guaranteed, .inBackground                Guaranteed, InBackground
//	  .deletingChildrenIfNeeded, .quietly       DeletingChildrenIfNeeded, Quietly
//	  .idempotent                               Idempotent
//	checkExists().creatingParentsIfNeeded       CreatingParentsIfNeeded; with a list by WithACLProvider only
//	createContainers, EnsureContainers          Framework.CreateContainers
//	getACL(), setACL()                          Framework.GetACL, SetACL
//	getConfig(), reconfig()                     Framework.Config, Reconfig
//	  .joining, .leaving, .withNewMembers,      Reconfiguration
//	  .fromConfig
//	getEphemerals (Java)                        Framework.Ephemerals
//	whoAmI (Java)                               Framework.WhoAmI; Health has it with WithSASL
//	(none)                                      Framework.RequireZooKeeper, for servers that are none
//	compressed(), decompressed()                Compressed, Decompressed,
//	                                            Framework.Decompress
//	  uncompressed(), undecompressed()          Uncompressed, Undecompressed
//	  compressionEnabled()                      CompressionEnabled
//	enableCompression                           WithCompression, for a client or a view
//	compressionProvider                         WithCompressionProvider
//	sync()                                      Framework.Sync
//	transaction().forOperations                 Framework.Transact
//	  results of a transaction that failed      the error names the operation and its place
//	transactionOp().create() and others         CreateOp, SetDataOp, DeleteOp, CheckOp
//	ZKPaths.makePath, getPathAndNode, split     JoinPath, SplitPath, PathNames
//	ZKPaths.mkdirs, deleteChildren              Framework.Mkdirs, DeleteChildren
//	ZKPaths.extractSequentialSuffix             SequenceNumber, CompareSequence
//	ZKPaths.getSortedChildren                   Framework.Children and slices.Sort
//	PathUtils.validatePath                      ValidatePath
//	ProtectedUtils.isProtectedZNode             IsProtectedName
//	none                                        Framework.History
//	KillSession (curator-test)                  package zktest, KillSession
//
// This package has no schemas, which are Curator's rules for paths: they bind only the clients
// that load the same schemas. To restrict access to a path, use access control lists
// ([WithACLProvider]), which the servers enforce for all clients. To restrict the data, the
// modes and the operations below a path, write a type that keeps a view of the client
// ([Framework.UsingNamespace]) to itself and has a method for each permitted action.
package framework
