// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"errors"
	"fmt"
)

// Affected is the result of an UPDATE, such as a [database/sql.Result].
type Affected interface {
	// RowsAffected returns the number of rows that were matched.
	RowsAffected() (int64, error)
}

// CheckUpdated returns nil if an UPDATE with the condition "fence <= token" has
// changed a row, and otherwise a [*StaleError] for the token:
//
//	UPDATE reports SET body = ?, fence = ? WHERE id = ? AND fence <= ?
//
// The row must exist, or the token counts as stale. Insert the row with fence 0 before the
// first write, or use the INSERT with ON CONFLICT of the package documentation. The database
// must count the rows that matched. MySQL counts the rows that changed, unless the
// connection asks for the matched ones (clientFoundRows=true in its Go driver).
func CheckUpdated(result Affected, token int64) error {
	if result == nil {
		return errors.New("fence: result nil, expected the one of an UPDATE")
	}
	n, err := result.RowsAffected()
	switch {
	case err != nil:
		return fmt.Errorf("fence: rows affected: %w", err)
	case n < 0:
		return fmt.Errorf("fence: %d rows affected, expected 0 or more", n)
	case n == 0:
		return &StaleError{Token: token}
	default:
		return nil
	}
}
