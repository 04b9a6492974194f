// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// Option changes how [Start] sets up an ensemble. An option with a bad value makes Start fail before anything is started.
type Option interface {
	apply(*settings) error
}

type optionFunc func(*settings) error

func (f optionFunc) apply(s *settings) error { return f(s) }

// plain returns an option that cannot be refused.
func plain(set func(*settings)) Option { return option(true, set, "") }

// option returns an option that is refused with the text unless its argument is valid.
func option(valid bool, set func(*settings), refusal string, args ...any) Option {
	return optionFunc(func(s *settings) error {
		if !valid {
			return fmt.Errorf("ensemble: "+refusal, args...)
		}
		set(s)
		return nil
	})
}

// settings is what the options leave behind.
type settings struct {
	size           int // servers that vote
	observers      int
	tick           time.Duration
	syncLimit      int
	containerCheck time.Duration
	fsync          bool
	parent         string // folder to create the ensemble's own folder in; empty: choose
	java           string
	classPath      string
	jvmFlags       []string
	network        bool              // every server on a host of its own
	secure         bool              // a second port, with TLS
	jaas           string            // of every server's JAAS file; empty for none
	properties     map[string]string // JVM system properties that the caller adds or overrides
	config         map[string]string // lines of zoo.cfg that the caller adds or overrides
}

func newSettings(opts []Option) (*settings, error) {
	s := &settings{
		size:           1,
		tick:           500 * time.Millisecond,
		syncLimit:      2,
		containerCheck: 200 * time.Millisecond,
		java:           "java",
		properties:     map[string]string{},
		config:         map[string]string{},
	}
	var errs []error
	for _, opt := range opts {
		if opt == nil {
			errs = append(errs, errors.New("ensemble: a nil option was given"))
			continue
		}
		errs = append(errs, opt.apply(s))
	}
	if s.observers > 0 && s.size == 1 {
		errs = append(errs, errors.New("ensemble: WithObservers beside WithSize(1), expected WithSize(3) or more: a standalone server leads none"))
	}
	return s, errors.Join(errs...)
}

// WithSize sets the number of servers that vote: 1, the default, is a standalone server. 3, 5 and 7 are quorums that survive the
// loss of one, two and three.
func WithSize(n int) Option {
	return option(n >= 1 && n <= 7 && n%2 == 1, func(s *settings) { s.size = n }, "size is %d, expected 1, 3, 5 or 7", n)
}

// WithObservers adds n servers, at most 3, that follow the leader and do not vote. They come last among the servers. They need a
// [WithSize] of 3 or more.
func WithObservers(n int) Option {
	return option(n >= 1 && n <= 3, func(s *settings) { s.observers = n }, "%d observers, expected 1 to 3", n)
}

// WithTick sets tickTime, which is 500 ms by default. Servers grant session timeouts from 2 to 20 ticks. A tick is a whole number of
// milliseconds, at least one.
func WithTick(d time.Duration) Option {
	return ofMillis("tick", d, func(s *settings) { s.tick = d })
}

// WithSyncLimit sets syncLimit, in ticks, 2 by default. If a follower hears nothing from its leader for that long, or a
// leader nothing from a quorum, it gives up, and a new election begins.
func WithSyncLimit(ticks int) Option {
	return option(ticks >= 1, func(s *settings) { s.syncLimit = ticks }, "sync limit is %d ticks, expected at least 1", ticks)
}

// WithContainerCheckInterval sets how often the leader looks for empty containers and overdue TTL nodes, 200 ms by default (one
// minute in ZooKeeper). It is a whole number of milliseconds, at least one.
func WithContainerCheckInterval(d time.Duration) Option {
	return ofMillis("container check interval", d, func(s *settings) { s.containerCheck = d })
}

func ofMillis(what string, d time.Duration, set func(*settings)) Option {
	return option(d >= time.Millisecond && d%time.Millisecond == 0, set,
		"%s is %v, expected a whole number of milliseconds, at least 1ms", what, d)
}

// WithDir sets the folder in which the ensemble creates its own folder, which Close removes. The folder itself must
// exist and stays. By default it is /dev/shm, which is memory, or the system's folder for temporary files where there
// is no /dev/shm or where [WithFsync] asks for a disk. Long campaigns should be given a disk: transaction logs are
// never purged.
func WithDir(dir string) Option {
	return option(dir != "", func(s *settings) { s.parent = dir }, "dir is empty, expected an existing folder")
}

// WithFsync says whether a server forces its transaction log to disk before it acknowledges a write. The default, false, is much
// faster and loses nothing when a process is killed, only when the machine is.
func WithFsync(on bool) Option {
	return plain(func(s *settings) { s.fsync = on })
}

// WithJava sets the java binary: a path, or a name that is looked up in PATH. It is "java" by default.
func WithJava(path string) Option {
	return option(path != "", func(s *settings) { s.java = path }, "java is empty, expected the path of a java binary")
}

// WithClassPath replaces Debian's jars by the jars of another ZooKeeper, in the form of java's -cp:
// "/opt/apache-zookeeper-3.9.3/lib/*". How much such servers log is then a matter of the logging library on that class path.
func WithClassPath(classPath string) Option {
	return option(classPath != "", func(s *settings) { s.classPath = classPath }, "class path is empty, expected jars or folders as for java -cp")
}

// WithProperty adds a system property to every server's JVM, as java's -Dkey=value does. It may override a property
// that the package sets, such as zookeeper.cnxTimeout. Setting org.slf4j.simpleLogger.defaultLogLevel to info or debug
// makes the servers' logs longer.
func WithProperty(key, value string) Option {
	valid := key != "" && !strings.ContainsAny(key, "= \t\r\n\x00") && !strings.ContainsRune(value, 0)
	return option(valid, func(s *settings) { s.properties[key] = value },
		"property %q=%q is not a name and a value that java -D takes", key, value)
}

// WithJVMFlags adds flags of every server's JVM, such as -Xmx1g. They override the package's own options, -Xmx96m
// -XX:+UseSerialGC -XX:TieredStopAtLevel=1, which make a server start quickly and run slowly.
func WithJVMFlags(flags ...string) Option {
	for _, flag := range flags {
		if !strings.HasPrefix(flag, "-X") || strings.ContainsRune(flag, 0) {
			return option(false, nil, "JVM flag %q, expected one that begins with -X", flag)
		}
	}
	return plain(func(s *settings) { s.jvmFlags = append(s.jvmFlags, flags...) })
}

// WithConfig adds a line key=value to every server's zoo.cfg. It may override a line that the package writes, such as
// initLimit. Keys that decide addresses, folders or membership are refused, and so are keys that have an option of
// their own.
func WithConfig(key, value string) Option {
	if key == "" || strings.ContainsAny(key, "= \t\r\n:") || strings.ContainsAny(value, "\r\n") {
		return option(false, nil, "config line %q=%q is not one line of a properties file", key, value)
	}
	isOurs := strings.HasPrefix(key, "server.") || reservedKeys[key] != ""
	return option(!isOurs, func(s *settings) { s.config[key] = value },
		"config key %q is set by the package, expected %s", key, cmp.Or(reservedKeys[key], "no server lines"))
}

// reservedKeys are the keys of zoo.cfg that WithConfig refuses, with what to use in their place.
var reservedKeys = map[string]string{
	"clientPort":              "the address that Server.Addr tells",
	"clientPortAddress":       "the address that Server.Addr tells",
	"dataDir":                 "WithDir",
	"dataLogDir":              "WithDir",
	"dynamicConfigFile":       "WithSize, WithObservers and Ensemble.Add",
	"secureClientPort":        "WithTLS",
	"secureClientPortAddress": "WithTLS",
	"syncLimit":               "WithSyncLimit",
	"tickTime":                "WithTick",
}

// merged returns a copy of defaults in which the entries of overrides win.
func merged(defaults, overrides map[string]string) map[string]string {
	all := maps.Clone(defaults)
	maps.Copy(all, overrides)
	return all
}
