// SPDX-License-Identifier: Apache-2.0

// Package gssapi authenticates clients of ZooKeeper by Kerberos: the SASL mechanism GSSAPI (RFC 4752),
// without a security layer. It is a module of its own, so that only its users depend on
// github.com/jcmturner/gokrb5.
//
//	mechanism, err := gssapi.Keytab("/etc/security/reports.keytab", "reports@EXAMPLE.COM")
//	...
//	client, err := framework.Connect(ctx, servers, framework.WithSASL(mechanism))
//
// # Credentials
//
// [Keytab] logs in with the key of a principal, [Password] with its password, and
// [CredentialCache] uses the tickets that kinit or k5start has written. Files are read again for
// each new ticket, so a keytab may be renewed and a cache refreshed while the client runs.
//
// The mechanism keeps the ticket of each server and gets another one when half of its lifetime has
// passed. If no KDC can be reached then, the old ticket serves until it expires. A ticket that a
// server has not accepted is not used again. The lifetime of a ticket does not bound the lifetime of a
// connection.
//
// # Names
//
// A server's principal is zookeeper/<host>, where the host stands in the connection string. With
// [WithServiceName] another service replaces zookeeper, as zookeeper.sasl.client.username does in Java.
// With [WithCanonicalHost] the name comes from the address of the connection, which a name of several
// servers needs, as zookeeper.sasl.client.canonicalize.hostname does. [WithServerPrincipal] names one principal
// for all servers, as zookeeper.server.principal does. The realm is the one that krb5.conf maps the
// host to, or the client's.
//
// # What is missing
//
// Requests after the authentication are neither encrypted nor signed: use framework.WithTLS. Tickets need
// encryption types of AES. Caches must be files; KEYRING, KCM and DIR are not read. A server of another realm
// needs a KDC that refers to that realm.
package gssapi
