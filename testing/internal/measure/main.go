// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// run prints the tables of options of the packages.
func run(ctx context.Context, packages []string) error {
	if len(packages) == 0 {
		return errors.New("no packages, expected some such as ./framework")
	}
	packs, err := load(ctx, packages)
	if err != nil {
		return err
	}
	return printOptions(os.Stdout, packs)
}
