// SPDX-License-Identifier: Apache-2.0

package zksim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zksim"
)

// seats sells the seats of a theatre under a lock. It has a fault: a process that is killed between the two writes has taken a seat
// that it has not sold, and no process looks after it.
func seats() zksim.Program {
	const free, sold = "/free", "/sold"
	return zksim.Program{
		Faults: []zksim.Fault{zksim.LagTime},
		Join: func(_ *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
			for path, seats := range map[string]string{free: "20", sold: "0"} {
				_, err := c.Create(context.Background(), path, []byte(seats))
				if err != nil && !errors.Is(err, framework.ErrNodeExists) {
					return nil, err
				}
			}
			mutex, err := locks.NewInterProcessMutex(c.Framework, "/lock")
			add := func(ctx context.Context, path string, n int) error {
				seats, err := c.Get(ctx, path)
				if err != nil {
					return err
				}
				before, _ := strconv.Atoi(string(seats))
				return c.Set(ctx, path, strconv.AppendInt(nil, int64(before+n), 10))
			}
			return func(ctx context.Context, random *rand.Rand) {
				if random.IntN(4) == 0 { // a release of the shop replaces the process
					time.AfterFunc(time.Duration(random.IntN(500))*time.Millisecond, func() {
						c.Process.Kill(false)
						c.Process.Start()
					})
				}
				_ = locks.Do(ctx, mutex, func(ctx context.Context) error {
					if err := add(ctx, free, -1); err != nil {
						return err
					}
					time.Sleep(300 * time.Millisecond) // the customer pays
					return add(ctx, sold, 1)
				})
			}, err
		},
		// During a sale one seat is neither free nor sold, and never two.
		Rules: []func(*zksim.World) error{func(w *zksim.World) error {
			sum := 0
			for _, path := range []string{free, sold} {
				for _, z := range w.Servers.Znodes(path) {
					seats, _ := strconv.Atoi(string(z.Data))
					sum += seats
				}
			}
			if w.Elapsed() > time.Second && sum < 19 {
				return fmt.Errorf("%d seats are neither free nor sold", 20-sum)
			}
			return nil
		}},
	}
}

// In a test of the theatre's shop. The rule finds the fault within a few histories.
func Example() {
	_ = func(t *testing.T) { zksim.Check(t, 1, 100, seats()) }
	// Output:
}
