// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

var (
	//go:embed external/Bench.java
	javaSource []byte
	//go:embed external/BenchVerbs.java
	javaVerbsSource []byte
	//go:embed external/bench.py
	pythonSource []byte
)

// jars are where Debian keeps what Curator needs.
const jars = "/usr/share/java"

// Those that these depend on are named in their manifests.
var javaNeeds = []string{
	"curator-recipes.jar", "curator-framework.jar", "curator-client.jar", "zookeeper.jar", "zookeeper-jute.jar",
	"slf4j-simple.jar",
}

func classPath() string {
	var paths []string
	for _, jar := range javaNeeds {
		paths = append(paths, filepath.Join(jars, jar))
	}
	return strings.Join(paths, string(os.PathListSeparator))
}

func javaMissing() error {
	if _, err := exec.LookPath("javac"); err != nil {
		return fmt.Errorf("%w: default-jdk-headless (Debian): %w", errMissing, err)
	}
	if _, err := os.Stat(filepath.Join(jars, "curator-recipes.jar")); err != nil {
		return fmt.Errorf("%w: libcurator-recipes-java (Debian): %w", errMissing, err)
	}
	return nil
}

// python is Debian's, which sees Debian's packages.
const python = "/usr/bin/python3"

func pythonMissing() error {
	if out, err := exec.Command(python, "-c", "import kazoo").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: python3-kazoo (Debian): %w: %s", errMissing, err, bytes.TrimSpace(out))
	}
	return nil
}

// runJava measures Apache Curator, in a process of its own.
func runJava(ctx context.Context, at servers, l load, path string) (result, error) {
	return runProgram(ctx, at, l, path, javaSource, "Bench.java", java()...)
}

// java is the command that runs a source file.
func java() []string {
	return []string{"java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classPath()}
}

// runPython measures kazoo, in a process of its own.
func runPython(ctx context.Context, at servers, l load, path string) (result, error) {
	return runProgram(ctx, at, l, path, pythonSource, "bench.py", python)
}

// runProgram runs a source file that takes turns at a lock.
func runProgram(
	ctx context.Context, at servers, l load, path string, source []byte, name string, command ...string,
) (r result, err error) {
	mode := "turns"
	switch {
	case l.Queue:
		mode = "queue"
	case l.Change != "":
		mode = l.Change
	}
	return runSource(ctx, source, name, command, at.zookeeper, path,
		strconv.Itoa(l.Clients), strconv.Itoa(l.Goroutines), strconv.Itoa(l.Leases), strconv.Itoa(l.Readers), mode,
		strconv.FormatInt(l.Duration.Milliseconds(), 10))
}

// runSource runs a source file with an interpreter and reads the line that it prints.
func runSource(ctx context.Context, source []byte, name string, command []string, args ...string) (r result, err error) {
	folder, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, name)
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return result{}, err
	}
	args = slices.Concat(command[1:], []string{file}, args)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("%s: %w\n%s", name, err, stderr.Bytes())
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return result{}, fmt.Errorf("%s printed %q: %w", name, out, err)
	}
	return r, nil
}
