// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNotInstalled is what [Start] returns when Java or ZooKeeper's jars are missing. The text names the Debian packages to install.
var ErrNotInstalled = errors.New("ensemble: not installed")

// classPathVariable is the environment variable that points at another ZooKeeper than Debian's, in the form of java's -cp.
// It is for tests: everything in this module that starts a ZooKeeper server takes it from there. [WithClassPath] wins over
// it.
const classPathVariable = "CURATOR_ZOOKEEPER_CLASSPATH"

const (
	debianZooKeeper = "/usr/share/java/zookeeper.jar"
	debianLogger    = "/usr/share/java/slf4j-simple.jar" // logs to standard error; missing, the servers log nothing

	standaloneMain = "org.apache.zookeeper.server.ZooKeeperServerMain"
	quorumMain     = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
)

// Installed returns the java binary and the class path that [Start] uses without [WithJava] and [WithClassPath], for other
// programs of ZooKeeper's. Where one is missing the error is [ErrNotInstalled].
func Installed() (java, classPath string, err error) {
	s, err := newSettings(nil)
	if err != nil {
		return "", "", err
	}
	err = s.resolve()
	return s.java, s.classPath, err
}

// resolve finds java and the jars, and fills in what the options left open.
func (s *settings) resolve() error {
	java, err := exec.LookPath(s.java)
	if err != nil {
		return fmt.Errorf("%w: no java to run: install default-jre-headless (Debian) or use WithJava: %w", ErrNotInstalled, err)
	}
	s.java = java
	if s.classPath == "" {
		s.classPath = os.Getenv(classPathVariable)
	}
	if s.classPath != "" {
		return nil
	}
	if _, err := os.Stat(debianZooKeeper); err != nil {
		return fmt.Errorf("%w: no ZooKeeper to run: install zookeeper (Debian), use WithClassPath or set %s: %w", ErrNotInstalled, classPathVariable, err)
	}
	s.classPath = debianZooKeeper + string(os.PathListSeparator) + debianLogger
	if s.secure {
		s.classPath += string(os.PathListSeparator) + debianTLS
	}
	return nil
}

// command returns the java command that runs one server from the given zoo.cfg and JAAS file.
func (s *settings) command(cfg, jaas string) *exec.Cmd {
	defaults := map[string]string{
		"java.awt.headless":                      "true",
		"java.net.preferIPv4Stack":               "true",
		"org.slf4j.simpleLogger.defaultLogLevel": "warn",
		"org.slf4j.simpleLogger.showDateTime":    "true",
		"org.slf4j.simpleLogger.dateTimeFormat":  "HH:mm:ss.SSS",
		"zookeeper.cnxTimeout":                   "500",
		"zookeeper.extendedTypesEnabled":         "true",
		"zookeeper.jmx.log4j.disable":            "true",
		"zookeeper.preAllocSize":                 "4096", // kB per step, not 64 MB: the log may live in a small tmpfs
		"znode.container.checkIntervalMs":        strconv.FormatInt(s.containerCheck.Milliseconds(), 10),
	}
	if !s.fsync {
		defaults["zookeeper.forceSync"] = "no"
	}
	args := []string{
		"-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-XX:-UsePerfData", // a killed JVM would leave its counters behind in /tmp/hsperfdata_*
	}
	args = append(args, s.jvmFlags...)
	if s.jaas != "" {
		defaults["java.security.auth.login.config"] = jaas
	}
	properties := merged(defaults, s.properties)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		args = append(args, "-D"+key+"="+properties[key])
	}
	main := standaloneMain
	if s.size > 1 {
		main = quorumMain
	}
	return exec.Command(s.java, append(args, "-cp", s.classPath, main, cfg)...)
}

// writeConfig creates the folders and files that server number i needs: zoo.cfg, and myid in its data folder.
func (s *settings) writeConfig(servers []*Server, i int) error {
	server := servers[i]
	lines := merged(map[string]string{
		"4lw.commands.whitelist": "*",
		"admin.enableServer":     "false",
		"initLimit":              "10",
		"maxClientCnxns":         "0",
		"standaloneEnabled":      strconv.FormatBool(s.size == 1),
	}, s.config)
	lines["dataDir"] = filepath.ToSlash(server.DataDir())
	lines["syncLimit"] = strconv.Itoa(s.syncLimit)
	lines["tickTime"] = strconv.FormatInt(s.tick.Milliseconds(), 10)
	if s.secure {
		lines["secureClientPortAddress"] = server.ip
		lines["secureClientPort"] = strconv.Itoa(server.ports.secure)
	}
	if s.size == 1 {
		lines["clientPortAddress"] = server.ip
		lines["clientPort"] = strconv.Itoa(server.ports.client)
	} else {
		for _, peer := range servers {
			id, line, _ := strings.Cut(peer.Line(), "=")
			lines["server."+id] = line
		}
	}
	var cfg strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&cfg, "%s=%s\n", key, lines[key])
	}
	if s.jaas != "" {
		if err := server.writeJAAS(s.jaas); err != nil {
			return err
		}
	}
	return writeFiles(map[string]string{
		server.configFile():                     cfg.String(),
		filepath.Join(server.DataDir(), "myid"): strconv.Itoa(server.id) + "\n",
	})
}

func writeFiles(files map[string]string) error {
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return fmt.Errorf("ensemble: %w", err)
		}
		if err := os.WriteFile(name, []byte(text), fs.FileMode(0o600)); err != nil {
			return fmt.Errorf("ensemble: %w", err)
		}
	}
	return nil
}
