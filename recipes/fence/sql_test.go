// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/fence"
)

// updateReport is the statement that checks and writes at once.
const updateReport = `UPDATE reports SET body = ?, fence = ? WHERE id = ? AND fence <= ?`

// reports is a database with one table, of one row, that knows one statement. Programs
// have a real one.
type reports struct {
	body  string
	fence int64
}

func (r *reports) Connect(context.Context) (driver.Conn, error) { return r, nil }
func (r *reports) Driver() driver.Driver                        { return nil }
func (r *reports) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (r *reports) Close() error                                 { return nil }
func (r *reports) NumInput() int                                { return 4 }

func (r *reports) Prepare(query string) (driver.Stmt, error) {
	if query != updateReport {
		return nil, fmt.Errorf("unknown statement %s", query)
	}
	return r, nil
}

func (r *reports) Query([]driver.Value) (driver.Rows, error) { return nil, errors.ErrUnsupported }

func (r *reports) Exec(args []driver.Value) (driver.Result, error) {
	if args[2].(int64) != 1 || r.fence > args[3].(int64) {
		return driver.RowsAffected(0), nil
	}
	r.body, r.fence = args[0].(string), args[1].(int64)
	return driver.RowsAffected(1), nil
}

// A table has the newest token in a column, and one statement checks and writes.
func ExampleCheckUpdated() {
	db := sql.OpenDB(&reports{})
	defer func() { check(db.Close()) }()
	write := func(body string, token int64) error {
		result, err := db.ExecContext(context.Background(), updateReport, body, token, 1, token)
		if err != nil {
			return err
		}
		return fence.CheckUpdated(result, token)
	}
	const paused, next = 4711, 4720 // lease.Token() of two holders, one after the other
	fmt.Println(write("by the first holder", paused))
	fmt.Println(write("by the next holder", next))
	fmt.Println(write("by the first holder, after its pause", paused))
	// Output:
	// <nil>
	// <nil>
	// fence: stale fencing token 4711
}

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// result is the result of an UPDATE.
type result struct {
	rows int64
	err  error
}

func (r result) RowsAffected() (int64, error) { return r.rows, r.err }

func TestCheckUpdated(t *testing.T) {
	require.NoError(t, fence.CheckUpdated(result{rows: 1}, 3))
	require.NoError(t, fence.CheckUpdated(result{rows: 2}, 3))
	require.ErrorIs(t, fence.CheckUpdated(result{rows: 0}, 3), fence.ErrStale)
	require.ErrorIs(t, fence.CheckUpdated(result{err: errors.ErrUnsupported}, 3), errors.ErrUnsupported)
	err := fence.CheckUpdated(result{rows: -1}, 3)
	require.Error(t, err)
	require.NotErrorIs(t, err, fence.ErrStale)
	require.ErrorContains(t, fence.CheckUpdated(nil, 3), "result nil")
}
