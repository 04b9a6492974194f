// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
)

// This file has the values of flags and arguments, and says what each may be.

// duration is the value of a flag for a time that may be 0.
type duration time.Duration

// Set implements [flag.Value].
func (d *duration) Set(text string) error {
	parsed, err := parseTime(text)
	if err == nil && parsed < 0 {
		return errors.New("expected 0 or more")
	}
	*d = duration(parsed)
	return err
}

// String implements [flag.Value].
func (d *duration) String() string { return time.Duration(*d).String() }

// parseTime reads a time. A bare number has seconds, as in flock(1) and timeout(1).
func parseTime(text string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("expected seconds, or a number with a unit, such as 90s")
	}
	return d, nil
}

// parsedFlag adds a flag whose text is parsed where it is given.
func parsedFlag[T any](fs *flag.FlagSet, name, about string, otherwise T, parse func(text string) (T, error)) *T {
	value := otherwise
	fs.Func(name, about, func(text string) (err error) {
		value, err = parse(text)
		return err
	})
	return &value
}

// text is the value of a flag that is not empty. An empty one comes from a variable of a script that is not set, and must not
// mean what no flag means.
type text string

// Set implements [flag.Value].
func (t *text) Set(value string) error {
	if value == "" {
		return errors.New("expected some text")
	}
	*t = text(value)
	return nil
}

// String implements [flag.Value].
func (t *text) String() string { return string(*t) }

// textFlag adds a flag for a text.
func textFlag(fs *flag.FlagSet, name, about string) *string {
	value := new(string)
	fs.Var((*text)(value), name, about)
	return value
}

// parseName returns a text that can be the name of a znode.
func parseName(name string) (string, error) {
	if name == "" || strings.Contains(name, "/") || framework.ValidatePath("/"+name) != nil {
		return "", errors.New("expected a name that a znode can have, without a slash")
	}
	return name, nil
}

// numberFlag adds a flag for a number that has a least value where it is given.
func numberFlag(fs *flag.FlagSet, name, about string, least, otherwise int) *int {
	return parsedFlag(fs, name, about, otherwise, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			return 0, fmt.Errorf("expected %d or more", least)
		}
		return n, nil
	})
}

// timeFlag adds a flag for a time that is above zero where it is given.
func timeFlag(fs *flag.FlagSet, name, about string, otherwise time.Duration) *time.Duration {
	return parsedFlag(fs, name, about, otherwise, func(text string) (time.Duration, error) {
		d, err := parseTime(text)
		if err != nil || d <= 0 {
			return 0, errors.New("expected more than 0, such as 90s")
		}
		return d, nil
	})
}

// versionFlag adds the flag for the version that a znode must have.
func versionFlag(fs *flag.FlagSet) *int32 {
	return parsedFlag(fs, "version", "`version` that the znode must have; -1, the default, for any", -1, func(text string) (int32, error) {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < -1 {
			return 0, fmt.Errorf("expected -1 to %d", math.MaxInt32)
		}
		return int32(n), nil
	})
}
