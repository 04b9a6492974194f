// Package fence refuses what comes from a holder that has lost its lock and does not
// know: the receiving end of fencing tokens.
//
// No lock service can stop a process that was paused for longer than its session and
// goes on with its next statement. What it writes to can: each write carries
// the token of its lease (Token of a lease of package locks), and the receiver remembers the newest
// token it has accepted and refuses older ones. Tokens of one lock rise from holder to
// holder.
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
// Where the token is a column, one statement checks and writes:
//
//	UPDATE reports SET body = ?, fence = ? WHERE id = ? AND fence <= ?
//
// If it has changed no row, the token was older. [CheckUpdated] says so:
//
//	result, err := db.ExecContext(ctx, update, body, token, id, token)
//	if err == nil {
//		err = fence.CheckUpdated(result, token)
//	}
//
// Two statements, SELECT and then UPDATE, need a transaction that locks the row.
//
// # Over HTTP
//
// The client sends the token in a header, by hand with [SetHeader] or for every
// request with a [Transport]; the server refuses with a [Handler]:
//
//	client := &http.Client{Transport: &fence.Transport{Lease: lease}}
//	server := &fence.Handler{Register: &register, Next: mux}
//
// # What the receiver has to keep
//
// The newest token must be as durable as what it protects, and be written together
// with it: in the same row, transaction, file or object. A receiver that forgets it,
// after a restart or a failover to a replica that is behind, accepts an old token
// again. So a Register, which keeps it in memory, suffices for what is gone with the
// process as well; for anything else [NewRegister] takes the number that was stored.
//
// One register belongs to one resource and one lock. Tokens are transaction numbers of
// a ZooKeeper ensemble: those of another ensemble, or of one that was set up anew, mean
// nothing here, and the number kept has to be reset by hand after such a move.
//
// # What it does not promise
//
// The holder of the newest token may have lost its lock too, as long as nobody with a
// newer one has come. That is harmless: nobody else has been there meanwhile.
package fence
