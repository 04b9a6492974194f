// Package framework is a ZooKeeper client for people who know Apache Curator's
// CuratorFramework: one long-lived client that keeps a session, retries by policy,
// tells its state to listeners, and carries the recipes.
//
// # Connect
//
// [New] checks its arguments and sends nothing; [Framework.Start] connects in the
// background; [Connect] does both and waits for the first connection:
//
//	client, err := framework.Connect(ctx, "zk1:2181,zk2:2181,zk3:2181/orders",
//		framework.WithSessionTimeout(30*time.Second),
//		framework.WithRetryPolicy(retry.ExponentialBackoff(100*time.Millisecond, 5)))
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//
// The path at the end of the connection string is a chroot: every path of the
// client is below it, in arguments, results and events. It is created with the
// first node that is created with [CreatingParentsIfNeeded]. One client serves a
// whole process; it is safe for concurrent use.
//
// # When the servers move
//
// Names are resolved at every attempt to connect. Where the names change, too, the
// client asks an [EnsembleProvider] in place of having a connection string:
//
//	provider, err := framework.NewDynamicEnsembleProvider("zk1:2181,zk2:2181/orders")
//	client, err := framework.Connect(ctx, "", framework.WithEnsembleProvider(provider))
//	...
//	err = provider.SetConnectionString("zk2:2181,zk3:2181")
//
// [WithEnsembleTracker] makes it follow what the servers write of themselves in
// /zookeeper/config, as [Framework.Reconfig] changes it.
//
// # Create, read, change, delete
//
// Every verb takes a context, what it needs, and then options that bear the names
// of Curator's builder methods. An option that makes no sense for a verb does not
// compile.
//
//	path, err := client.Create(ctx, "/jobs/job-", data,
//		framework.CreatingParentContainersIfNeeded(),
//		framework.WithMode(framework.EphemeralSequential),
//		framework.WithProtection())
//	data, err := client.Get(ctx, path, framework.StoringStatIn(&stat))
//	err = client.Set(ctx, path, data, framework.WithVersion(stat.Version))
//	err = client.Delete(ctx, path, framework.Guaranteed())
//
// [Framework.Exists] returns a nil Stat for a node that is not there, which is no
// error. [Framework.Pipeline] makes several reads in one round trip.
//
// [Framework.UsingNamespace] returns a view of the client whose paths are all below
// one node, on the same session:
//
//	orders, err := client.UsingNamespace("orders")
//	data, err := orders.Get(ctx, "/1") // of /orders/1
//
// # All or nothing
//
//	results, err := client.Transact(ctx,
//		framework.CheckOp("/leader", framework.WithVersion(7)),
//		framework.SetDataOp("/report", data),
//		framework.DeleteOp("/todo/1"))
//
// The error names the operation that failed. None has been applied then.
//
// # Watch
//
// A watch is set together with a read, and is told of the first change after what
// the read has returned:
//
//	var watch *framework.Watch
//	data, err := client.Get(ctx, "/config", framework.Watched(&watch))
//	if err != nil {
//		return err // there is no watch
//	}
//	event, err := watch.Wait(ctx) // cancels the watch if ctx ends before
//	if err != nil {
//		return err
//	}
//	... // read again, also when event.Err is not nil
//
// To wait for other things too there is [Watch.Fired]; who stops waiting calls
// [Watch.Cancel].
// However many watches a client has on one path, the server has one of each kind;
// when the last is cancelled, it has none.
//
// A persistent watch stays, over events, lost connections and new sessions, and needs
// ZooKeeper 3.6. Where events may have gone unseen its listeners are told to read
// again:
//
//	watch, err := client.AddWatch(ctx, "/config", framework.WatchPersistentRecursive)
//	...
//	defer watch.Cancel()
//	watch.OnEvent(func(e framework.Event) {
//		if e.Type == framework.EventResync { ... } // changes may have gone unseen
//	})
//
// # Follow a znode
//
// A loop over the states of a znode needs no watch of its own. It goes on over lost
// connections, and leaves nothing when it ends:
//
//	for node, err := range client.Follow(ctx, "/config") {
//		if err != nil {
//			log.Print(err) // node is the last one known
//			continue
//		}
//		if node.Exists() { apply(node.Data) }
//	}
//
// [Framework.FollowChildren] does so for the list of children. For a tree there is package
// recipes/cache.
//
// # Many paths
//
// [Framework.Bulk] makes many operations with a bounded number under way, and has a result and
// an error for each:
//
//	results, err := client.Bulk(ctx, []framework.BulkOp{
//		framework.BulkGet("/jobs/1"), framework.BulkSet("/jobs/2", data), ...
//	}, framework.WithWindow(256), framework.WithProgress(func(done, total int) { ... }))
//
// # Know the state of the connection
//
//	registration := client.OnConnectionState(func(s framework.ConnectionState) { ... })
//	defer registration.Remove()
//
// Listeners are told [Connected] once, then [Suspended], [Reconnected] and [Lost]
// as the connection goes and comes; package listen has the contract of their order.
// With [WithReadOnly] there is [ReadOnly], too: a server without a quorum that answers
// reads.
// A listener that is to have peace while a connection comes and goes is put behind a
// [NewCircuitBreakingConnectionStateListener].
// [Framework.Health] and [Framework.HealthHandler] tell the same, and the reason, to
// whoever asks. What must stop together with the session is better bound to a context, which
// ends without any goroutine having to run first:
//
//	ctx = client.Session().Context(framework.StandardErrorPolicy)
//
// Under [QuorumErrorPolicy] there must be a heartbeat while something is held, which
// costs a write per quarter of the session timeout:
//
//	held, release, err := client.Session().Hold(ctx, framework.QuorumErrorPolicy)
//	if err != nil {
//		return err
//	}
//	defer release()
//
// A [Session] is over for its client at its [Session.Deadline] at the latest, even
// when no server can be reached to say so: the send time of the newest request that
// a server has acknowledged, plus the session timeout that the server has granted.
// A session that was given up and then turns out to live on at the server is another
// Session with the same id.
//
// # Functions of the program's that a client calls
//
// The contexts of sessions and holds end first. No function that a program gives to a
// client is called before that, under a lock of the client, or on the goroutine that
// receives from the server. This is where each one is called, and what it delays if it
// blocks:
//
//	log handler (WithLogger)              a goroutine of its own          nothing; up to 1,024 records wait, the rest is lost
//	listener of states, watches           a goroutine of its own          its own later calls; package listen
//	Watch.OnFired                         a goroutine of its own          nothing
//	retry policy, ACL and compression     the goroutine of the call       that call
//	providers, function given to Retry,
//	spans and measurements of verbs
//	tracer and meter provider, callbacks  New, Start and Close            those
//	Dialer, EnsembleProvider              the connecting goroutine        the next connection
//
// All of them may call the client, and all but the last two rows may close it. A panic
// in the first three rows is recovered and logged; elsewhere it is the program's.
//
// # Prove who one is
//
// [WithAuth] presents credentials on every connection, before any request:
//
//	client, err := framework.Connect(ctx, servers,
//		framework.WithAuth("digest", []byte("user:"+password)))
//	_, err = client.Create(ctx, "/mine", nil,
//		framework.WithACL(framework.ACL{Perms: zk.PermAll, Scheme: "auth"}))
//
// [WithTLS] encrypts the connections and proves who the servers are, and with a client
// certificate who the client is:
//
//	framework.WithTLS(&tls.Config{RootCAs: authorities, Certificates: own})
//
// A credential that a server refuses is the end of the client: it is [Lost], and
// every call fails with [ErrAuthFailed]. Secrets are in no log and no error.
//
// # When a call fails
//
// An error is an [*OpError] with the verb and the path. Two questions decide what
// to do about it:
//
//   - [Retryable]: may the same call succeed later? This is what the retry policy is
//     asked about.
//   - [OutcomeUnknown]: may the write have been applied although it failed? A write
//     that fails with any other error has certainly not been applied.
//
// Reads are repeated as the policy says. So are writes that have certainly not
// reached a server. A write whose outcome is unknown is repeated only if that can
// do no harm: a create [WithProtection], which is searched for first, a delete
// that is [Guaranteed], and a write that is said to be [Idempotent]. All others
// return the error.
//
// [WithRetry] sets another policy for one call. [Framework.Retry] repeats several
// calls together, which share one budget of retries with it:
//
//	err := client.Retry(ctx, func(ctx context.Context) error {
//		if err := client.Sync(ctx, "/config"); err != nil {
//			return err
//		}
//		data, err = client.Get(ctx, "/config")
//		return err
//	}, framework.WithRetry(retry.UntilElapsed(time.Minute, time.Second)))
//
// A call whose context ends fails with an [*InterruptedError], which errors.Is takes for
// context.Canceled or context.DeadlineExceeded, whatever the context's cause is. The cause
// is in its field Cause, and errors.As finds a [*LostError] in it; an error of this package
// there is not the answer to this call. If the request had been sent, OutcomeUnknown is true;
// if not, it never will be sent. A create with protection and a guaranteed delete then clean
// up in the background, and say so with [ErrCleanupPending].
//
// A request runs only in the session it was sent in; with [InSession], only in the session
// it names. All verbs take InSession, a pipeline and a transaction within a Retry that has
// it. With the policy retry.SessionFailed a call is bound to the session in which it begins,
// and fails with [ErrSessionExpired] when that has ended.
//
// # Metrics and traces
//
// A client made [WithMeterProvider] or [WithTracerProvider] tells what it does
// through OpenTelemetry's API. Without them it tells nothing, also not to the
// global providers, and a request costs what it would cost otherwise.
//
//	instrument                          kind, unit              attributes
//	curator.session.state               gauge                   server.address, server.port
//	curator.session.transitions         counter {transition}    curator.state, server.address, server.port
//	curator.session.lease.remaining     gauge s                 server.address, server.port
//	curator.client.operation.duration   histogram s             curator.operation, error.type
//	curator.client.retries              counter {retry}         curator.operation
//	curator.watch.active                updowncounter {watch}
//	curator.cleanup.pending             updowncounter {deletion}
//	curator.cleanup.oldest.age          gauge s
//
// The state is the number of a [ConnectionState], curator.state the name of the one
// that was entered. An operation is a call of a verb with all its retries:
// create, delete, get, set, exists, children, sync, transact, watch data, add watch, or
// pipeline for several reads in one write. What is refused for its arguments is not
// measured, what runs in the background is seen in curator.cleanup.pending only.
// error.type is an [ErrorType], and absent from what succeeded.
//
//	span                                attributes
//	create znode, delete znode,         curator.operation, error.type, server.address, server.port;
//	get data, set data,                 curator.path with WithPathAttribute
//	check existence, list children,     events: retry (curator.attempt)
//	sync znode, transact operations,
//	pipeline reads, watch data, add watch,
//	get access control list,
//	set access control list,
//	reconfigure ensemble,
//	list ephemerals, count descendants
//
// All are client spans. The status is an error with the error.type, except for
// what a server answers about znodes in the ordinary course of things: no_node,
// node_exists, bad_version, not_empty. No attribute, event or status has data, a
// secret or the text of an error in it. Recipes add instruments and spans of their
// own; their packages say which. What [WithLogger] writes has the same keys.
//
// # Build on it
//
// A recipe takes a [*Framework] and whatever its user has said already:
// [Framework.RetryPolicy], [Framework.ErrorPolicy], [Framework.Logger], and for telemetry
// [Framework.HasTelemetry], [Framework.TracerProvider], [Framework.MeterProvider],
// [Framework.HasPathAttribute] and [Framework.ServerAttributes]. Package locks uses
// nothing of the client that is not exported. A tool that asks servers by itself finds
// them with [Framework.Servers], and connects with [Framework.Dialer].
//
// # What is not promised
//
//   - A read may be behind the newest write of another client, even after
//     [Framework.Sync].
//   - No event does not mean no change: the end of a connection ends its watches.
//   - The deadline of a session is safe against a standalone server, and against an
//     ensemble as long as the client's server is not cut off from the others. One that
//     is, be it a follower or the leader, acknowledges pings for a while: see
//     [StandardErrorPolicy], and [QuorumErrorPolicy], which counts only what committed
//     writes have confirmed.
//   - A process that is paused past its deadline cannot know. What it does then must
//     be fenced where it takes effect, for instance with the czxid of a node.
//   - Background deletions end with the client. What they would have deleted, if it
//     is ephemeral, goes with the session.
//   - Servers before 3.5 lack requests that are used here, and those before 3.6 persistent
//     watches, [Framework.Ephemerals] and [Framework.AllChildrenNumber], which fail
//     with [ErrUnsupported] there.
//
// # From Curator
//
//	Curator                                     here
//	CuratorFrameworkFactory.newClient           New, Connect
//	EnsembleProvider, FixedEnsembleProvider     WithEnsembleProvider, FixedEnsembleProvider
//	  .setConnectionString                      DynamicEnsembleProvider.SetConnectionString
//	ensembleTracker                             WithEnsembleTracker, off by default
//	zookeeperFactory                            WithDialer
//	wire.maxbuffer (Java)                       WithMaxRequestSize, WithMaxReplySize
//	start, close, blockUntilConnected           Framework.Start, Close, BlockUntilConnected
//	maxCloseWaitMs                              none: Close takes two seconds at most
//	getConnectionStateListenable                Framework.OnConnectionState
//	canBeReadOnly, READ_ONLY                    WithReadOnly, ReadOnly
//	CircuitBreakingConnectionStateListener      the same name, around a listener
//	ConnectionStateListenerManagerFactory       a circuit breaker around each listener that is to have one
//	getZookeeperClient().isConnected            Framework.State().IsConnected
//	getState, isStarted                         Framework.Health: ErrNotStarted, ErrClosed
//	getCuratorListenable                        none: each watch has its own listeners
//	getZookeeperClient().getZooKeeper           none: WithAuth before the start, Session().Timeout()
//	getCurrentConfig                            Framework.Config, as the servers write it
//	buildTemp (CuratorTempFramework)            none: Connect and Close
//	threadFactory, waitForShutdownTimeoutMs     none: there are no threads, Close waits two seconds at most
//	zkClientConfig, SASL                        none: WithTLS and WithAuth; no Kerberos or DIGEST-MD5
//	dontUseContainerParents                     WithoutContainerParents, or by itself where a server has no containers
//	TracerDriver, AdvancedTracerDriver          WithTracerProvider, WithMeterProvider, WithPathAttribute
//	logging, getUnhandledErrorListenable        WithLogger
//	runSafe, executors of listeners             none: each listener has a goroutine, see package listen
//	connectionStateErrorPolicy                  WithErrorPolicy
//	  Standard-, SessionConnectionStateErrorPolicy  StandardErrorPolicy, SessionErrorPolicy
//	  none                                      QuorumErrorPolicy, WithServerTiming
//	simulatedSessionExpirationPercent           none: Lost comes by Session.Deadline
//	connectionTimeoutMs, sessionTimeoutMs       WithConnectionTimeout, WithSessionTimeout
//	retryPolicy                                 WithRetryPolicy, or WithRetry for one call; package retry
//	RetryLoop.callWithRetry                     Framework.Retry
//	ThreadLocalRetryLoop                        Framework.Retry, whose context carries the budget
//	SessionFailRetryLoop                        Session.Context, InSession, retry.SessionFailed
//	RetryPolicy.allowRetry(Throwable)           retry.Selector
//	authorization                               WithAuth
//	zookeeper.client.secure and ssl.* (Java)    WithTLS
//	namespace, usingNamespace                   Framework.UsingNamespace, or the chroot of the connection string
//	  getNamespace, usingNamespace(null)        Framework.Namespace, WithoutNamespace; FullPath for messages
//	aclProvider                                 WithACLProvider
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
//	                                            ReadChildren, WatchData; Framework.Bulk
//	AsyncCuratorFramework, ModeledFramework     goroutines; none
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
//	  .joining, .leaving                        Joining, Leaving
//	  .withNewMembers, .fromConfig              WithNewMembers, FromConfig
//	getEphemerals, getAllChildrenNumber (Java)  Framework.Ephemerals, AllChildrenNumber
//	compressed(), decompressed()                Compressed, Decompressed
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
//	KillSession (curator-test)                  package zktest, KillSession
//
// Curator's schemas, rules for what may be at which path, are left out: they bind only
// the clients that have the same ones. Who may do what at a path is for access control
// lists ([WithACLProvider]), which servers enforce for everybody. What the data is like,
// and which modes and operations there are, is for a type of the program's that keeps a
// view of the client ([Framework.UsingNamespace]) to itself and has a method for each
// thing that may be done below it.
package framework
