// SPDX-License-Identifier: Apache-2.0

// Package grpcresolver lets gRPC clients call services by the names that they
// are registered under in ZooKeeper. It is a module of its own, so that programs
// without gRPC do not depend on it.
//
//	services, err := discovery.NewServiceDiscovery[any](client, "/services", nil)
//	builder, err := grpcresolver.NewBuilder(services, grpcresolver.Config[any]{})
//	conn, err := grpc.NewClient("zookeeper:///orders",
//		grpc.WithResolvers(builder),
//		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
//		grpc.WithTransportCredentials(credentials))
//
// The instances of the service orders become the endpoints of the connection. Each
// registration, update and removal reaches the connection without a query. When many
// instances change at once, the connection gets only the newest list.
//
// # Attributes
//
// Config.Attributes reads the weight and the zone of an instance from its payload. The
// balancer [Weighted] shares the calls by weight. A balancer of the program gets them from
// [AttributesOf]. If Attributes or a filter
// panics on an instance, the instance is left out until it changes, and the client logs
// it once.
//
// # While ZooKeeper is away
//
//   - A connection goes on with the last known instances, also after it was idle. gRPC itself stops calling
//     instances that do not answer. [Builder.Age] reports how old the instances may be.
//   - A connection that has never known the instances makes its calls wait until
//     ZooKeeper answers, or until the contexts of the calls end.
//   - A service without an instance fails calls at once, with the code
//     Unavailable. Calls with grpc.WaitForReady wait for an instance.
//
// # A server that stops
//
// An orderly server unregisters, then drains, then closes:
//
//	err = services.Unregister(instance) // the server has confirmed it
//	server.GracefulStop()               // calls under way end, others go elsewhere
//
// No call fails then. When a server is killed, the calls that it was working on
// fail. Its session ends later, and with it the registration. Until then gRPC
// leaves the server out because the connection to it is broken.
package grpcresolver
