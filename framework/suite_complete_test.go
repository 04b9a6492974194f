// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// elsewhere are the exported names that no row of the suite uses, with a test that they
// have and the reason.
var elsewhere = map[string]string{
	"CompareSequence":            "TestSequenceNumbersInOrder: it asks no server",
	"CreatorAllACL":              "TestACLs: it asks no server",
	"DigestACL":                  "TestACLs: it asks no server",
	"DigestMD5":                  "TestSASL: it takes a server with users",
	"DigestMD5Func":              "TestSASLRotatedPassword: it takes a server with users",
	"ErrMalformedReply":          "TestGarbageHalfAReplyIsNoResult: no server sends one",
	"ErrNotConnected":            "TestHealth: it takes an outage",
	"ErrNotReadOnly":             "TestReadOnlyMode: it takes several servers",
	"ErrSessionMoved":            "TestLifecycleErrors: it takes a session that is at two servers",
	"ErrUnsupported":             "TestAddWatchOnAnOldServerThatDoesNotSay: it takes an old server",
	"ErrorType":                  "TestErrorTypes: it asks no server",
	"Framework.Bulk":             "TestBulk: it is many calls",
	"Framework.ChildrenData":     "TestChildrenData: it is many calls",
	"Framework.Decompress":       "TestDecompress: it asks no server",
	"Framework.Dialer":           "TestDialerOfAClient: it is for others' connections",
	"Framework.Follow":           "TestFollowSeesEveryState: it is a loop of several calls",
	"Framework.FollowChildren":   "TestFollowChildren: it is a loop of several calls",
	"Framework.Format":           "TestBadInputSecretsAreToldToNobody: it asks no server",
	"EndSession":                 "TestEndSession: it takes another client",
	"Framework.HealthHandler":    "TestHealth: it answers over HTTP",
	"Framework.History":          "TestHistoryOfServers: it takes servers that begin again",
	"Framework.MaxRequestSize":   "TestLifecycleOptions: it asks no server",
	"Framework.RequireZooKeeper": "TestRequireZooKeeper: it takes a server that is none",
	"Framework.SetAuth":          "TestSetAuthAddsAndRotates: it takes two clients",
	"Framework.Telemetry":        "TestTelemetryWithoutProvidersNothingIsTold: it asks no server",
	"Framework.WhoAmI":           "TestWhoAmI: it takes a server with users",
	"InHistory":                  "TestInSessionBindsEveryVerb: it takes servers that begin again",
	"JoinPath":                   "TestPathJoinAndSplit: it asks no server",
	"NewDynamicEnsembleProvider": "TestEnsembleProviderIsAskedBeforeEachRound: it takes several servers",
	"NewSRVEnsembleProvider":     "TestSRVServersThatMoveAreFound: it takes several servers",
	"OutcomeUnknown":             "TestLifecycleErrors: script.failed asks it about every error",
	"WithServerOrder":            "TestServerOrderMovesBack: it takes several servers",
	"PathNames":                  "TestPathNames: it asks no server",
	"PersistentWatch.Flush":      "TestFlushOfAPersistentWatch: it is about listeners",
	"ReadACL":                    "TestACLs: it asks no server",
	"Retryable":                  "TestLifecycleErrors: script.failed asks it about every error",
	"SequenceNumber":             "TestSequenceNumbers: it asks no server",
	"Session.Format":             "TestBadInputSecretsAreToldToNobody: it asks no server",
	"Session.LogValue":           "TestBadInputSecretsAreToldToNobody: it asks no server",
	"SplitPath":                  "TestPathJoinAndSplit: it asks no server",
	"ValidatePath":               "TestValidatePath: it asks no server",
	"WithDialer":                 "TestBadInputDialerThatReturnsNothing: it is used for faults",
	"WithEnsembleProvider":       "TestEnsembleProviderIsAskedBeforeEachRound: it takes several servers",
	"WithEnsembleTracker":        "TestEnsembleTrackerFollowsAReconfiguration: it takes several servers",
	"WithGuard":                  "TestGuardHasTheSessionFirst: it takes a guard",
	"WithLogger":                 "TestLoggerThatBlocksCostsLogLinesOnly: a log is no outcome",
	"WithMeterProvider":          "TestTelemetryOfVerbs: measurements are no outcome",
	"WithPathAttribute":          "TestTelemetryPathAttributeIsOptIn: spans are no outcome",
	"WithReadOnly":               "TestReadOnlyMode: it takes several servers",
	"WithReplyLimit":             "TestWithReplyLimit: it takes a client with a small limit",
	"WithSASL":                   "TestSASL: it takes a server with users",
	"WithServerTiming":           "TestQuorumWarningOfTooShortATimeout: it is for a warning",
	"WithTLS":                    "TestTLS: it takes a server with a certificate",
	"WithTrackedAddress":         "TestTrackedAddressKeepsTLS: it takes several servers",
	"WithTracerProvider":         "TestTelemetryOfVerbs: spans are no outcome",
	"WithoutContainerParents":    "TestCreateOnServersWithoutContainers: it is for servers that have none",

	"NewCircuitBreakingConnectionStateListener": "TestCircuitBreakerOnAClient: it takes outages",
}

// TestSuiteIsComplete: whatever a caller can do is done by a row, or has a test of its
// own. That goes for the functions of the package, for the methods of what they return,
// and for the modes; and every error must come out of some row.
func TestSuiteIsComplete(t *testing.T) {
	used := usedBySuite(t)
	tests := testsOf(t, os.DirFS(".."))
	recorded := must.Get(os.ReadFile(suiteFile))(t)
	callable := callableNames(t)
	for _, name := range callable {
		_, method, isMethod := strings.Cut(name, ".")
		isUsed := used[name]
		switch {
		case isMethod:
			isUsed = used["."+method]
		case strings.HasPrefix(name, "Err") && name != "ErrorType":
			isUsed = strings.Contains(string(recorded), name)
		}
		test, isElsewhere := elsewhere[name]
		require.NotEqual(t, isUsed, isElsewhere, "%s is to be in a row, or else tested elsewhere", name)
		test, _, _ = strings.Cut(test, ":")
		require.True(t, isUsed || tests["framework."+test], "no %s, which is to test %s", test, name)
	}
	for name := range elsewhere {
		require.Contains(t, callable, name, "among those that are tested elsewhere")
	}
}

// handles are the types whose methods count.
var handles = []string{"Framework", "Session", "Watch", "PersistentWatch"}

// callableNames returns the exported functions, modes and errors of the package, and the
// methods of its handles as Type.Method.
func callableNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range parse(t, "*.go") {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if receiver := receiverOf(decl); receiver == "" {
					names = append(names, decl.Name.Name)
				} else if slices.Contains(handles, receiver) && decl.Name.IsExported() {
					names = append(names, receiver+"."+decl.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					names = append(names, modesAndErrors(spec)...)
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !ast.IsExported(name) })
}

// modesAndErrors returns the names that are constants of a mode, or errors.
func modesAndErrors(spec ast.Spec) (names []string) {
	values, ok := spec.(*ast.ValueSpec)
	if !ok {
		return nil
	}
	of, _ := values.Type.(*ast.Ident)
	isMode := of != nil && strings.HasSuffix(of.Name, "Mode")
	for _, id := range values.Names {
		if isMode || strings.HasPrefix(id.Name, "Err") {
			names = append(names, id.Name)
		}
	}
	return names
}

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	id, _ := of.(*ast.Ident)
	return id.Name
}

// usedBySuite returns what the tables of the suite use: names of the package, and
// those of methods with a dot before them.
func usedBySuite(t *testing.T) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	for name, file := range parse(t, "suite_*_test.go") {
		if name == "suite_complete_test.go" {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := selector.X.(*ast.Ident); ok && of.Name == "framework" {
				used[selector.Sel.Name] = true
			} else {
				used["."+selector.Sel.Name] = true
			}
			return true
		})
	}
	return used
}

// parse returns the files of this folder that match the pattern, without tests unless
// it names them.
func parse(t *testing.T, pattern string) map[string]*ast.File {
	t.Helper()
	paths := must.Get(filepath.Glob(pattern))(t)
	require.NotEmpty(t, paths)
	files := map[string]*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(pattern, "_test.go") {
			continue
		}
		files[path] = must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
	}
	return files
}

// testsOf returns the tests below a folder, as folder.Name.
func testsOf(t *testing.T, module fs.FS) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := fs.WalkDir(module, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(module, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[filepath.Dir(path)+"."+f.Name.Name] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	return tests
}
