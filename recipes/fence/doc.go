// SPDX-License-Identifier: Apache-2.0

// Package fence refuses the writes of a holder that has lost its lock and does not know.
//
// A process may be paused for longer than its session, and then go on with its next statement.
// No lock service can stop it, but the resource that it writes to can. Each write carries the
// token of its lease (Token of a lease of package locks). The tokens of one exclusive lock
// rise from holder to holder. The receiver remembers the newest token that it has accepted,
// and refuses older ones.
//
// # In memory
//
// A [Register] guards what one process keeps:
//
//	var register fence.Register
//	err := register.Do(ctx, token, func() error { ... }) // matches ErrStale for an older token
//
// # In a database
//
// If the token is a column of the row, one statement checks and writes:
//
//	INSERT INTO reports (id, body, fence) VALUES ($1, $2, $3)
//	    ON CONFLICT (id) DO UPDATE SET body = excluded.body, fence = excluded.fence
//	     WHERE reports.fence <= excluded.fence
//
// A database without ON CONFLICT takes an UPDATE of a row that exists:
//
//	UPDATE reports SET body = $2, fence = $3 WHERE id = $1 AND fence <= $3
//
// If the statement has changed no row, the token was older. [CheckUpdated] returns an error
// then:
//
//	result, err := db.ExecContext(ctx, statement, id, body, token)
//	if err == nil {
//		err = fence.CheckUpdated(result, token)
//	}
//
// Two statements, SELECT and then UPDATE, need a transaction that locks the row.
//
// # Over HTTP
//
// The client sends the token in a header, by hand with [SetHeader] or for every request
// with a [Transport]. The server refuses older tokens with a [Handler]:
//
//	client := &http.Client{Transport: &fence.Transport{Lease: lease}}
//	server := &fence.Handler{Register: &register, Next: mux}
//
// # Which tokens
//
// Fencing needs a lock that one owner holds at a time: a mutex, a write lock, or the
// leadership of an election. Several read leases, or several permits of a semaphore, are
// valid at once. A register would refuse the older of their tokens although its holder has
// lost nothing. So never use their tokens with one register. [SetHeader] and [Transport]
// refuse such a lease with [ErrShared].
//
// Holds in a row under locks.WithLocalHandoff have one token, and the receiver cannot tell
// them apart. It does not refuse a goroutine of that process that goes on after its release.
//
// One register belongs to one resource and one lock. Tokens are transaction numbers of a
// ZooKeeper ensemble, so tokens of two ensembles cannot be compared. Reset the stored number
// by hand after a move to another ensemble.
//
// # When the servers are restored
//
// The upper 32 bits of a token are the epoch, which numbers the leaders of the ensemble. The
// lower 32 bits count the transactions of that leader. The tokens after a restore depend on
// the servers:
//
//   - An ensemble begins the epoch after the one in its backup. If the leader has not changed
//     since the backup, all later tokens are greater than all earlier ones. Nothing must be
//     done.
//   - If the leader has changed since, the ensemble uses an epoch again. Tokens may be lower
//     than those before, or equal to them.
//   - A standalone server has no epochs and goes on counting from the backup. So its tokens are
//     lower at first.
//   - Servers that come back empty begin again: a standalone server with 1, an ensemble with
//     the epoch 1.
//
// If tokens are lower, a receiver refuses all holders until the tokens have passed the stored
// number. If tokens are equal, the receiver cannot tell two holders apart, which is unsafe. So
// before the restored servers serve clients, the operator must:
//
//  1. stop every process that may still act for a lease from before the restore;
//  2. make the tokens greater than every stored number, or reset the stored numbers.
//
// An ensemble gives greater tokens after its epoch was raised. To raise it, write a number into
// the files acceptedEpoch and currentEpoch of each stopped server, in the folder version-2 of
// its data. The number must be no less than the upper half of the greatest stored number, which
// is that number shifted right by 32 bits. For a standalone server, and where the files cannot
// be changed, set the stored numbers to 0.
//
// # Which clients to trust
//
// Fencing stops holders that are late, not clients that lie. A client that sends the token
// 9223372036854775807 once locks all later holders out, until the stored number is reset by
// hand. So accept tokens only from clients that may take the lock. Authenticate a client before
// you look at its token.
//
// Where other clients can reach the receiver, let it check tokens with ZooKeeper.
// [Handler.Verify] is called for each token that is newer than all before it. The valid tokens
// are those of the Participants of the lock. A fixed limit is no replacement, because tokens
// rise with every transaction of the ensemble.
//
// # What the receiver must keep
//
// The newest token must be as durable as the data that it protects. Write both together, in
// the same row, transaction, file or object. A receiver that forgets the token, after a
// restart or a failover to a replica that is behind, accepts an older one again. A Register
// keeps the token in memory, which is enough for data that ends with the process. For other
// data give [NewRegister] the number that was stored.
//
// # What it does not promise
//
// The holder of the newest token may have lost its lock too, until a client with a newer token
// comes. That is harmless: no other holder has written in the meantime.
package fence
