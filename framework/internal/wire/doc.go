// SPDX-License-Identifier: Apache-2.0

// Package wire is ZooKeeper's protocol: opcodes, error codes, the records that requests and
// replies share, and the format of all of them.
//
// The format is Hadoop's jute as ZooKeeper uses it: big-endian integers,
// booleans of one byte, and buffers, strings and vectors that begin with a
// signed 32-bit count. A count of -1 is a null buffer or vector.
//
// An [Encoder] appends to a byte slice and cannot fail. A [Decoder] never
// trusts a count: it checks each against the bytes that are left before it
// allocates, so no reply can make the process allocate more than a small
// multiple of its own size.
package wire
