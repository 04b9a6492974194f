// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// TestReleaseGreetsAStranger plays three releases between clones of this repository. After the first a stranger does what the
// README says, with nothing else than the tags: gets the module, pastes each program into an empty module, and runs it beside
// the server that the README names. The others are a minor version and a patch, to which the stranger moves.
func TestReleaseGreetsAStranger(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test compiles all dependencies in a module cache of its own")
	}
	origin, clone := cloned(t)
	released := clone.released()
	require.Subset(t, released, []string{"framework/gssapi", "recipes/discovery/grpcresolver", "cmd/curatorctl"})
	clone.release("v0.999.0")
	for _, module := range released {
		require.NotContains(t, clone.do("git", "show", module+"/v0.999.0:"+module+"/go.mod"), "replace", module)
		clone.do("go", "-C", module, "mod", "tidy", "-diff")
		clone.do("go", "-C", module, "list", "-deps", "./...")
	}

	user := place{t, t.TempDir(), nil}
	user.environment = fromOrigin(t, origin, user.at)
	readme := user.tagged(origin, "v0.999.0", "README.md")
	require.NotContains(t, readme, "No version is tagged yet")
	user.do("go", "mod", "init", "example.com/user")
	user.do(strings.Fields(only(t, readme, "`(go get "+mainModule+")`"))...)
	required := requirements(user.do("cat", "go.mod"))
	require.Len(t, required, 9, "the module itself, go, and what the library needs")
	for _, ofTests := range []string{"testify", "goleak", "porcupine", "rapid", "/sdk"} {
		require.NotContains(t, strings.Join(required, " "), ofTests)
	}

	server, stop := user.start("go", "run", mainModule+"/examples/devserver@latest", "-addr", "127.0.0.1:0")
	defer func() {
		stop()
		_, _ = io.Copy(io.Discard, server)
	}()
	address := strings.TrimPrefix(await(t, server, "listening on "), "listening on ")
	var said []string
	for _, block := range fence.FindAllStringSubmatch(readme, -1) {
		if block[1] != "go" {
			continue
		}
		require.Contains(t, block[2], `"127.0.0.1:2181"`)
		user.write("main.go", strings.Replace(block[2], "127.0.0.1:2181", address, 1))
		user.do("go", "build", "-o", "pasted", ".")
		said = append(said, user.runs("./pasted"))
	}
	require.Len(t, said, 3)
	t.Logf("the programs of the README print:\n%s", strings.Join(said, "---\n"))
	for i, expected := range []string{"writing the report, alone\n", "leading\nended: context canceled", "writing the report\nran here: true\n"} {
		require.True(t, strings.HasPrefix(said[i], expected), said[i])
	}
	user.do("go", "vet", ".")

	quickstart := strings.Fields(only(t, readme, "(go run "+mainModule+"/examples/quickstart@latest)"))
	shown := user.do(quickstart...)
	require.Contains(t, shown, "LOST the lock")
	t.Logf("%s prints:\n%s", strings.Join(quickstart, " "), shown)
	install := strings.Fields(only(t, readme, "(go install "+mainModule+"/cmd/curatorctl@latest)"))
	user.do(install...)
	require.Contains(t, user.do("bin/curatorctl", "version"), "v0.999.0")
	require.Contains(t, user.do("bin/curatorctl", "-servers", address, "locks"), "HOLDER")

	for _, module := range append([]string{"."}, released...) {
		user.builds(origin, module)
	}

	clone.change("a second change")
	clone.release("v0.1000.0")
	user.do("go", "get", "-u", mainModule)
	user.write("main.go", fence.FindStringSubmatch(readme[max(strings.Index(readme, "\n```go"), 0):])[2])
	require.Contains(t, user.do("go", "list", "-m", mainModule), "v0.1000.0")
	user.do("go", "build", "-o", "pasted", ".")
	clone.change("a repair")
	clone.release("v0.1000.1")
	require.Contains(t, clone.do("cat", "CHANGELOG.md"), "\n## [Unreleased]\n\n## [0.1000.1] - 2")
	user.do("go", "get", mainModule+"@patch")
	require.Contains(t, user.do("go", "list", "-m", mainModule), "v0.1000.1")
	user.do(install...)
	require.Contains(t, user.do("bin/curatorctl", "version"), "v0.1000.1")
}

// release makes a release and pushes it as the script says.
func (p place) release(version string) {
	p.t.Helper()
	printed := p.do("make", "--no-print-directory", "release", "VERSION="+version)
	push := regexp.MustCompile(`(?m)^    (git push .*)$`).FindStringSubmatch(printed)
	require.Len(p.t, push, 2, printed)
	p.do("bash", "-c", push[1])
	require.Contains(p.t, p.do("git", "show", version+":CHANGELOG.md"), "\n## ["+strings.TrimPrefix(version, "v")+"] - 2")
	require.Contains(p.t, p.do("cat", "CHANGELOG.md"), "\n## [Unreleased]\n\n## ["+strings.TrimPrefix(version, "v"))
}

// released returns the folders of the modules that a release tags beside the main one.
func (p place) released() []string {
	p.t.Helper()
	return strings.Fields(p.do(".ci/modules", "released"))
}

// change commits something to release.
func (p place) change(what string) {
	p.t.Helper()
	changes := p.do("cat", "CHANGELOG.md")
	require.Contains(p.t, changes, "\n## [Unreleased]\n")
	p.write("CHANGELOG.md", strings.Replace(changes, "\n## [Unreleased]\n", "\n## [Unreleased]\n\n- "+what+"\n", 1))
	p.do("git", "commit", "-qam", "changelog: add "+what)
}

// tagged returns a file of a release.
func (p place) tagged(origin, version, name string) string {
	p.t.Helper()
	return p.do("git", "-C", origin, "show", version+":"+name)
}

// stubs are the names that the snippets of the modules' documents use without declaring them.
var stubs = map[string]string{
	"client":      "new(framework.Framework)",
	"credentials": "insecure.NewCredentials()",
	"ctx":         "context.Background()",
	"err":         "error(nil)",
	"instance":    "discovery.ServiceInstance[any]{}",
	"server":      "grpc.NewServer()",
	"servers":     `"127.0.0.1:2181"`,
	"services":    "new(discovery.ServiceDiscovery[any])",
	"writeReport": "func(context.Context) error { return nil }",
}

// builds gets a module of the first release into an empty module, and compiles each snippet of Go in the comment of its package.
// A command says how to install it.
func (p place) builds(origin, module string) {
	p.t.Helper()
	text := p.tagged(origin, "v0.999.0", path.Join(module, "doc.go"))
	file := must.Get(parser.ParseFile(token.NewFileSet(), "doc.go", text, parser.ParseComments))(p.t)
	if file.Name.Name == "main" {
		require.Contains(p.t, text, "go install "+mainModule+"/"+module+"@latest")
		return
	}
	packages := map[string]string{
		"context": "context", "grpc": "google.golang.org/grpc", "insecure": "google.golang.org/grpc/credentials/insecure",
	}
	for folder := range strings.FieldsSeq(p.do("git", "-C", origin, "ls-tree", "-rd", "--name-only", "v0.999.0")) {
		if strings.HasPrefix(folder, "framework") || strings.HasPrefix(folder, "recipes/") {
			packages[path.Base(folder)] = mainModule + "/" + folder
		}
	}
	var imports, functions strings.Builder
	imported := make(map[string]bool)
	for _, code := range snippets(file) {
		body, used := function(p.t, code, packages)
		fmt.Fprintf(&functions, "var _ = func() error {\n%s\nreturn nil\n}\n", body)
		for name := range used {
			if !imported[name] {
				fmt.Fprintf(&imports, "import %q\n", packages[name])
			}
			imported[name] = true
		}
	}

	at := place{p.t, filepath.Join(p.at, "of", filepath.FromSlash(module)), p.environment}
	require.NoError(p.t, os.MkdirAll(at.at, 0o700))
	at.write("main.go", "package main\n"+imports.String()+"func main() {}\n"+functions.String())
	at.do("go", "mod", "init", "example.com/snippets")
	at.do("go", "get", path.Join(mainModule, module))
	if module != "." { // whose documents import other modules, too
		at.do("go", "mod", "tidy")
	}
	printed, _ := at.run("go", "build", "-gcflags=-e", "-o", "snippets", ".")
	for line := range strings.Lines(printed) {
		require.Regexp(p.t, "^# |declared and not used: ", line, "%s: its doc.go does not compile:\n%s", module, functions.String())
	}
}

// snippets returns the code blocks of the comment of a package that are Go.
func snippets(file *ast.File) []string {
	var blocks []string
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		if code, ok := block.(*comment.Code); ok {
			if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() error {\n"+code.Text+"}", 0); err == nil {
				blocks = append(blocks, code.Text)
			}
		}
	}
	return blocks
}

// function returns a snippet with the variables that it does not declare, and the packages that it uses.
func function(t *testing.T, code string, packages map[string]string) (body string, used map[string]bool) {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() error {\n"+code+"}", 0))(t)
	used = make(map[string]bool)
	declared := make(map[string]bool)
	for _, name := range file.Unresolved {
		if value := stubs[name.Name]; value != "" && !declared[name.Name] {
			declared[name.Name] = true
			body += name.Name + " := " + value + "\n"
			if found := regexp.MustCompile(`(\w+)\.`).FindStringSubmatch(value); len(found) > 1 && packages[found[1]] != "" {
				used[found[1]] = true
			}
		}
		used[name.Name] = used[name.Name] || packages[name.Name] != "" && !declared[name.Name]
	}
	maps.DeleteFunc(used, func(_ string, is bool) bool { return !is })
	return body + code, used
}

// requirements returns the lines of a go.mod that require a module or Go.
func requirements(text string) []string {
	return regexp.MustCompile(`(?m)^(?:require |\t|)(\S+ v?[0-9]\S*)`).FindAllString(text, -1)
}

// only returns what the expression finds in a text, which is one and the same everywhere.
func only(t *testing.T, text, expression string) string {
	t.Helper()
	found := regexp.MustCompile(expression).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, found, expression)
	for _, f := range found {
		require.Equal(t, found[0][1], f[1])
	}
	return found[0][1]
}

// start starts a command, and returns what it prints until it has ended, and what ends it.
func (p place) start(command ...string) (output *bufio.Reader, end func()) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), command[0], command[1:]...) //nolint:gosec // commands of this test
	cmd.Dir, cmd.Env = p.at, append(os.Environ(), p.environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run passes no SIGTERM on
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	require.NoError(p.t, cmd.Start())
	go func() { _ = writer.CloseWithError(cmd.Wait()) }()
	return bufio.NewReader(reader), func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// await reads lines until one begins as expected, and returns that line.
func await(t *testing.T, output *bufio.Reader, begins string) string {
	t.Helper()
	for {
		line, err := output.ReadString('\n')
		require.NoError(t, err, "no line begins with %q", begins)
		if strings.HasPrefix(line, begins) {
			return strings.TrimSpace(line)
		}
	}
}

// runs starts a program that ends by itself, or by SIGTERM when it leads, and returns what it prints.
func (p place) runs(program string) string {
	p.t.Helper()
	output, end := p.start(program)
	var all strings.Builder
	for {
		line, err := output.ReadString('\n')
		all.WriteString(line)
		switch {
		case line == "leading\n":
			end()
		case err != nil:
			require.ErrorIs(p.t, err, io.EOF, all.String())
			return all.String()
		}
	}
}
