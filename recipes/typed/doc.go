// SPDX-License-Identifier: Apache-2.0

// Package typed reads and writes znodes as values of a Go type. It is the counterpart of
// Curator's ModeledFramework.
//
//	type Service struct{ Address string }
//
//	node, err := typed.NewNode(client, "/services/a", typed.JSON[Service]())
//	service, stat, err := node.Get(ctx)
//	err = node.Update(ctx, func(s *Service) error { s.Address = "b:80"; return nil })
//
// A program that follows its configuration keeps the last good value:
//
//	codec := typed.StrictJSON[Config]().Validating(Config.check)
//	node, err := typed.NewNode(client, "/config", codec)
//	for state, err := range node.Follow(ctx) {
//		if err != nil {
//			log.Print(err) // also while the znode is missing
//			continue
//		}
//		apply(state.Value)
//	}
//
// A [Folder] is many znodes whose paths differ in parameters:
//
//	services, err := typed.NewFolder(client, "/services/{service}/{id}", typed.JSON[Service]())
//	node, err := services.Node("search", "1")   // /services/search/1
//	values, err := services.Values(ctx, "search") // all of /services/search, in two round trips
//
// With a [cache.CuratorCache], views read from memory:
//
//	service, stat, err := node.Cached(c)
//	for node, err := range services.Cached(c) { ... node.Parameters, node.Value ... }
//
// The package returns the errors of package framework, and [ErrCodec] for data that the codec
// cannot decode.
package typed
