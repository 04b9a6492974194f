// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/cmd/curatorctl/internal/doctor"
)

// verbDoctor looks for what will hurt.
func verbDoctor(fs *flag.FlagSet) action {
	var except []string
	fs.Func("except", "leave out these `kinds` of findings, such as version,timeout", func(text string) error {
		except = strings.Split(text, ",")
		for _, kind := range except {
			if !slices.Contains(doctor.Kinds, kind) {
				return fmt.Errorf("%q, expected some of %s", kind, strings.Join(doctor.Kinds, ", "))
			}
		}
		return nil
	})
	return func(ctx context.Context, c *call) error {
		e := doctor.Ask(ctx, c.client)
		d := doctor.New(c.servers, e)
		if e.Quorum {
			limited, cancel := c.limited(ctx)
			defer cancel()
			if err := c.with(limited, c.connect, func() error { return d.Examine(ctx, c.client, c.arg(0, "/")) }); err != nil {
				return err
			}
		}
		found := d.Findings(except...)
		return cmp.Or(c.writeFindings(found), answered(doctor.Answer(found)))
	}
}

func (c *call) writeFindings(found []doctor.Finding) error {
	var lines []string
	for _, f := range found {
		lines = append(lines, fmt.Sprintf("%s: %s: %s\n    %s", f.About, printable(f.Where), printable(f.Text), f.Mend))
		if f.More > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d more", f.About, f.More))
		}
	}
	return c.say(found, lines...)
}
