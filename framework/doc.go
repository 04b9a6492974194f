// Package framework is a ZooKeeper client for people who know Apache Curator's
// CuratorFramework: one long-lived client that keeps a session, retries by policy,
// tells its state to listeners, and carries the recipes.
package framework
