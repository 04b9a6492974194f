// SPDX-License-Identifier: Apache-2.0

package txn_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/x/txn"
	"github.com/gocurator/curator/testing/zkserver"
)

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// number reads a znode as a number.
func number(tx *txn.Tx, path string) (int, error) {
	data, err := tx.Get(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(data))
}

// Money moves from one account to the other, or stays where it is.
func ExampleDo() {
	server, err := zkserver.Start()
	check(err)
	client, err := framework.Connect(context.Background(), server.Addr())
	check(err)
	defer func() { check(errors.Join(client.Close(), server.Close())) }()
	ctx := context.Background()
	check(client.Mkdirs(ctx, "/accounts"))
	check(txn.Do(ctx, client, func(tx *txn.Tx) error {
		return errors.Join(tx.Create("/accounts/a", []byte("100")), tx.Create("/accounts/b", []byte("0")))
	}))

	move := func(amount int) error {
		return txn.Do(ctx, client, func(tx *txn.Tx) error {
			if err := tx.Prefetch("/accounts/a", "/accounts/b"); err != nil {
				return err
			}
			a, err := number(tx, "/accounts/a")
			if err != nil {
				return err
			}
			b, err := number(tx, "/accounts/b")
			if err != nil {
				return err
			}
			if a < amount {
				return fmt.Errorf("%d is not enough", a)
			}
			return errors.Join(
				tx.Set("/accounts/a", strconv.AppendInt(nil, int64(a-amount), 10)),
				tx.Set("/accounts/b", strconv.AppendInt(nil, int64(b+amount), 10)))
		})
	}

	fmt.Println(move(70))
	fmt.Println(move(70))
	// Output:
	// <nil>
	// 30 is not enough
}
