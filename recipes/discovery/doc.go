// SPDX-License-Identifier: Apache-2.0

// Package discovery lets processes find each other: Apache Curator's
// x-discovery. It shares services with Java programs that use it, and with
// Spring Cloud Zookeeper.
//
// # Be found
//
//	services, err := discovery.NewServiceDiscovery[any](client, "/services", nil)
//	instance := discovery.NewInstance[any]("orders", "10.0.0.7", 8080)
//	err = services.Register(ctx, instance)
//
// The instance stays registered over deletions, lost connections and lost
// sessions. A process that dies disappears with its session. An orderly
// shutdown unregisters first, and stops serving after that:
//
//	err = services.Unregister(instance) // the server has confirmed it
//	err = httpServer.Shutdown(ctx)      // calls that are under way end
//
// # Find
//
//	provider, err := services.NewProvider("orders", discovery.ProviderConfig[any]{})
//	err = provider.Start() // returns at once; provider.Wait(ctx) waits for the instances
//	defer provider.Close()
//	instance, err := provider.Instance() // sends nothing, allocates nothing
//
// A provider that is cut off goes on with the instances that it knows; [ServiceProvider.Age]
// says how old they are. When many instances change at once, the provider makes only the
// newest list. So a slow listener misses lists, but no change. An HTTP client uses a
// [Transport]:
//
//	client := &http.Client{Transport: discovery.NewTransport(provider, nil)}
//	response, err := client.Get("http://orders/v1/open")
//
// [ServiceDiscovery.Instances] asks the server once, and a [ServiceCache] follows it.
//
// # Payloads
//
// The payload of an instance has the type of the discovery. A payload that Java reads as an
// object needs its Java class:
//
//	services, err := discovery.NewServiceDiscovery[Metadata](client, "/services",
//		discovery.JSONSerializer[Metadata]{
//			Class: "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance",
//		})
//
// # What is read
//
// [JSONSerializer] writes each field as Java does, and reads what Java's JsonInstanceSerializer reads, so also instances of other
// programs. Names of fields are exact: "ID" is a field of its own. Other fields are kept in Unknown.
//
//	field                        written           read, too
//	name, id, address            text              number, truth value
//	port, sslPort                number or null    text of a whole number, "" for null, a fraction, which is cut off
//	registrationTimeUTC          number            as port; null for 0
//	serviceType                  its name          its place in Java's enum, from 0
//	enabled                      truth value       "true", "false", a whole number, "" and null for false
//	uriSpec                      object or null    the same, with parts as above
//
// # Instances that cannot be used
//
// One bad instance does not affect other instances. If its data cannot be read, or the
// [Serializer] or a filter panics on it, the instance is left out until it changes. The log
// of the client has its path and the reason once for each content, and a metric counts it.
//
// # Metrics
//
// A client made WithMeterProvider measures its discoveries. Only
// [framework.WithPathAttribute] adds the attribute curator.path. Log records
// always have it.
//
//	instrument                        kind, unit
//	curator.discovery.registrations   updowncounter {instance}
//	curator.discovery.instances       updowncounter {instance}
//	curator.discovery.age             gauge s
//	curator.discovery.left_out        counter {instance}
//
// Registrations counts the instances that this process keeps registered, and instances those
// in its caches and providers. left_out counts an instance each time that a cache or a query
// leaves it out. The age is [ServiceCache.Age] of the oldest cache, while there is one. The
// counters exist from the start.
//
// # What is not promised
//
// A look-up is as old as the newest event that has arrived. An instance whose process is cut
// off stays until its session ends. Calls of the instance fail until then: report the errors
// with [ServiceProvider.NoteError]. A persistent znode with an instance is an instance until it
// is deleted, whatever the type of the instance says, as in Curator.
//
// gRPC clients use the module recipes/discovery/grpcresolver.
//
// # Coming from Curator
//
//   - DownInstancePolicy, InstanceFilter and the three strategies are in [ProviderConfig]. [Weighted]
//     and [SameZone] are not Curator's. A [Strategy] sees instances by [InstanceAt].
//     An instance is up again exactly when its timeout ends; Curator looks once per half of
//     the timeout. RoundRobin goes by the order of the znodes.
//   - DYNAMIC_SEQUENTIAL instances can be updated and unregistered.
//   - An instance keeps its node over a reconnect of the same session; Curator
//     deletes it and creates it again.
//   - There is no DiscoveryPathConstructor: an instance is at <base>/<name>/<id>, where all clients
//     of a service look. NewInstance wants an address, which [LocalAddress] may choose.
//     [ServiceDiscovery.OnEdit] has what watchInstances(true) does.
//   - "enabled" is written on demand, as by Curator's JsonInstanceSerializer.
package discovery
