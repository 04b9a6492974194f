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
	return optionFunc(func(s *settings) error {
		if n < 1 || n > 7 || n%2 == 0 {
			return fmt.Errorf("ensemble: size is %d, expected 1, 3, 5 or 7", n)
		}
		s.size = n
		return nil
	})
}

// WithObservers adds n servers, at most 3, that follow the leader and do not vote. They come last among the servers. They need a
// [WithSize] of 3 or more.
func WithObservers(n int) Option {
	return optionFunc(func(s *settings) error {
		if n < 1 || n > 3 {
			return fmt.Errorf("ensemble: %d observers, expected 1 to 3", n)
		}
		s.observers = n
		return nil
	})
}

// WithTick sets tickTime, which is 500 ms by default. Servers grant session timeouts from 2 to 20 ticks. A tick is a whole number of
// milliseconds, at least one.
func WithTick(d time.Duration) Option {
	return optionFunc(func(s *settings) error {
		s.tick = d
		return checkMillis("tick", d)
	})
}

// WithSyncLimit sets syncLimit, in ticks, 2 by default. If a follower hears nothing from its leader for that long, or a
// leader nothing from a quorum, it gives up, and a new election begins.
func WithSyncLimit(ticks int) Option {
	return optionFunc(func(s *settings) error {
		if ticks < 1 {
			return fmt.Errorf("ensemble: sync limit is %d ticks, expected at least 1", ticks)
		}
		s.syncLimit = ticks
		return nil
	})
}

// WithContainerCheckInterval sets how often the leader looks for empty containers and overdue TTL nodes, 200 ms by default (one
// minute in ZooKeeper). It is a whole number of milliseconds, at least one.
func WithContainerCheckInterval(d time.Duration) Option {
	return optionFunc(func(s *settings) error {
		s.containerCheck = d
		return checkMillis("container check interval", d)
	})
}

func checkMillis(what string, d time.Duration) error {
	if d < time.Millisecond || d%time.Millisecond != 0 {
		return fmt.Errorf("ensemble: %s is %v, expected a whole number of milliseconds, at least 1ms", what, d)
	}
	return nil
}

// WithDir sets the folder in which the ensemble creates its own folder, which Close removes. The folder itself must
// exist and stays. By default it is /dev/shm, which is memory, or the system's folder for temporary files where there
// is no /dev/shm or where [WithFsync] asks for a disk. Long campaigns should be given a disk: transaction logs are
// never purged.
func WithDir(dir string) Option {
	return optionFunc(func(s *settings) error {
		if dir == "" {
			return errors.New("ensemble: dir is empty, expected an existing folder")
		}
		s.parent = dir
		return nil
	})
}

// WithFsync says whether a server forces its transaction log to disk before it acknowledges a write. The default, false, is much
// faster and loses nothing when a process is killed, only when the machine is.
func WithFsync(on bool) Option {
	return optionFunc(func(s *settings) error {
		s.fsync = on
		return nil
	})
}

// WithJava sets the java binary: a path, or a name that is looked up in PATH. It is "java" by default.
func WithJava(path string) Option {
	return optionFunc(func(s *settings) error {
		if path == "" {
			return errors.New("ensemble: java is empty, expected the path of a java binary")
		}
		s.java = path
		return nil
	})
}

// WithClassPath replaces Debian's jars by the jars of another ZooKeeper, in the form of java's -cp:
// "/opt/apache-zookeeper-3.9.3/lib/*". How much such servers log is then a matter of the logging library on that class path.
func WithClassPath(classPath string) Option {
	return optionFunc(func(s *settings) error {
		if classPath == "" {
			return errors.New("ensemble: class path is empty, expected jars or folders as for java -cp")
		}
		s.classPath = classPath
		return nil
	})
}

// WithProperty adds a system property to every server's JVM, as java's -Dkey=value does. It may override a property
// that the package sets, such as zookeeper.cnxTimeout. Setting org.slf4j.simpleLogger.defaultLogLevel to info or debug
// makes the servers' logs longer.
func WithProperty(key, value string) Option {
	return optionFunc(func(s *settings) error {
		if key == "" || strings.ContainsAny(key, "= \t\r\n\x00") || strings.ContainsRune(value, 0) {
			return fmt.Errorf("ensemble: property %q=%q is not a name and a value that java -D takes", key, value)
		}
		s.properties[key] = value
		return nil
	})
}

// WithJVMFlags adds flags of every server's JVM, such as -Xmx1g. They override the package's own options, -Xmx96m
// -XX:+UseSerialGC -XX:TieredStopAtLevel=1, which make a server start quickly and run slowly.
func WithJVMFlags(flags ...string) Option {
	return optionFunc(func(s *settings) error {
		for _, flag := range flags {
			if !strings.HasPrefix(flag, "-X") || strings.ContainsRune(flag, 0) {
				return fmt.Errorf("ensemble: JVM flag %q, expected one that begins with -X", flag)
			}
		}
		s.jvmFlags = append(s.jvmFlags, flags...)
		return nil
	})
}

// WithConfig adds a line key=value to every server's zoo.cfg. It may override a line that the package writes, such as
// initLimit. Keys that decide addresses, folders or membership are refused, and so are keys that have an option of
// their own.
func WithConfig(key, value string) Option {
	return optionFunc(func(s *settings) error {
		switch {
		case key == "" || strings.ContainsAny(key, "= \t\r\n:") || strings.ContainsAny(value, "\r\n"):
			return fmt.Errorf("ensemble: config line %q=%q is not one line of a properties file", key, value)
		case strings.HasPrefix(key, "server."), reservedKeys[key] != "":
			return fmt.Errorf("ensemble: config key %q is set by the package, expected %s", key, cmp.Or(reservedKeys[key], "no server lines"))
		}
		s.config[key] = value
		return nil
	})
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
