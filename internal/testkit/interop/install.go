// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNotInstalled is what [Start] returns when a Java compiler or Curator's jars are
// missing, and [StartKazoo] when kazoo is. The text names the Debian packages to install.
var ErrNotInstalled = errors.New("interop: not installed")

//go:embed java/*.java
var sources embed.FS

// jarFolder is where Debian keeps the jars. Those that jars depend on are named in
// their manifests.
const jarFolder = "/usr/share/java"

var jars = []string{
	"curator-x-discovery.jar", "curator-recipes.jar", "curator-framework.jar", "curator-client.jar", "zookeeper.jar", "zookeeper-jute.jar",
	"slf4j-simple.jar", // logs to standard error
}

// installation is what the program is compiled and run with.
type installation struct {
	javac, java string
	classPath   string
}

// find looks for the commands in PATH and for the jars in the folder.
func find(folder string) (installation, error) {
	var found installation
	for command, into := range map[string]*string{"javac": &found.javac, "java": &found.java} {
		path, err := exec.LookPath(command)
		if err != nil {
			return found, fmt.Errorf("%w: no %s: install default-jdk-headless (Debian): %w", ErrNotInstalled, command, err)
		}
		*into = path
	}
	var paths []string
	for _, jar := range jars {
		path := filepath.Join(folder, jar)
		if _, err := os.Stat(path); err != nil {
			return found, fmt.Errorf("%w: no %s: install libcurator-recipes-java and libcurator-discovery-java (Debian): %w", ErrNotInstalled, jar, err)
		}
		paths = append(paths, path)
	}
	found.classPath = strings.Join(paths, string(os.PathListSeparator))
	return found, nil
}

// compile writes the classes of the program to the folder.
func (i installation) compile(ctx context.Context, folder string) error {
	if err := os.CopyFS(folder, sources); err != nil {
		return fmt.Errorf("interop: %w", err)
	}
	files, err := fs.Glob(sources, "java/*.java")
	if err != nil {
		return fmt.Errorf("interop: %w", err)
	}
	javac := exec.CommandContext(ctx, i.javac,
		append([]string{"-Xlint:all,-path", "-Werror", "-encoding", "UTF-8", "-cp", i.classPath, "-d", folder}, files...)...)
	javac.Dir = folder
	if output, err := javac.CombinedOutput(); err != nil {
		return fmt.Errorf("interop: javac: %w\n%s", err, output)
	}
	return nil
}

// command runs the program from the classes in the folder.
func (i installation) command(folder string) *exec.Cmd {
	return exec.Command(i.java,
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", folder+string(os.PathListSeparator)+i.classPath, "Peer")
}
