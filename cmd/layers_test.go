package cmd_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "flunq.io/flunq"
	root   = ".." // the folder of the module
)

// arrows lists the packages of this module that each package may import, by folder; with /...
// also all packages below it. A package without a line fails the test.
var arrows = map[string][]string{
	".":                      {"cmd"},
	"cmd":                    {"cmd/...", "engine/...", "sim/...", "tui/...", "workflows"},
	"cmd/cli":                {"cmd/actions", "cmd/dev", "cmd/replace", "engine/...", "sim", "sim/mock"},
	"cmd/run":                {"cmd/cli", "cmd/graph", "cmd/playback", "cmd/report", "engine/...", "sim/...", "tui/...", "workflows"},
	"cmd/check":              {"cmd/cli", "cmd/graph", "cmd/playback", "cmd/replace", "cmd/report", "cmd/run", "engine/...", "sim/...", "tui"},
	"cmd/editor":             {"cmd/cli", "cmd/replace", "engine/dsl", "engine/expr", "engine/history", "engine/lazyregexp", "engine/spelling", "engine/yaml", "sim/mock", "sim/spec"},
	"cmd/operate":            {"cmd/actions", "cmd/cli", "cmd/describe", "cmd/report", "cmd/run", "cmd/top", "engine/...", "sim", "sim/mock", "sim/recording", "tui"},
	"cmd/doctor":             {"cmd/actions", "cmd/cli", "cmd/dev", "engine/..."},
	"cmd/startup":            {},
	"cmd/replace":            {},
	"cmd/serve":              {"cmd/actions", "cmd/bench", "cmd/cli", "cmd/dev", "engine/...", "tui"},
	"cmd/dev":                {"cmd/replace", "engine/event", "engine/store", "engine/store/timers", "engine/store/wire", "sim/mini"},
	"cmd/bench":              {"engine/...", "sim", "sim/explore", "sim/search"},
	"cmd/playback":           {"cmd/describe", "engine/decide", "engine/dsl", "engine/event", "engine/expr/canonical", "engine/history", "tui"},
	"cmd/graph":              {"engine/dsl", "engine/expr", "engine/expr/canonical"},
	"cmd/report":             {"cmd/graph", "engine/decide", "engine/dsl", "engine/event", "engine/expr/canonical", "engine/history", "sim/recording", "sim/spec", "tui/axis", "engine/excerpt"},
	"cmd/actions":            {"cmd/dev", "engine/...", "sim", "sim/recording"},
	"cmd/describe":           {"cmd/graph", "engine/dsl", "engine/event", "engine/history", "tui"},
	"cmd/top":                {"cmd/dev", "cmd/actions", "cmd/describe", "engine/...", "tui"},
	"engine":                 {"engine/..."},
	"engine/event":           {},
	"engine/lazyregexp":      {},
	"engine/spelling":        {},
	"engine/expr":            {"engine/expr/...", "engine/lazyregexp", "engine/spelling", "engine/excerpt"},
	"engine/expr/budget":     {"engine/expr/canonical"},
	"engine/expr/canonical":  {},
	"engine/schema":          {},
	"engine/yaml":            {"engine/lazyregexp", "engine/spelling", "engine/excerpt"},
	"engine/dsl":             {"engine/event", "engine/yaml", "engine/expr", "engine/expr/canonical", "engine/schema", "engine/lazyregexp", "engine/spelling", "engine/excerpt"},
	"engine/decide":          {"engine/event", "engine/dsl", "engine/expr", "engine/expr/canonical", "engine/history", "engine/schema", "engine/excerpt"},
	"engine/excerpt":         {},
	"engine/history":         {"engine/event", "engine/excerpt"},
	"engine/queue":           {},
	"engine/store":           {"engine/event", "engine/store/scripts", "engine/store/wire"},
	"engine/store/wire":      {},
	"engine/store/scripts":   {},
	"engine/store/stream":    {"engine/event", "engine/store", "engine/store/scripts", "engine/store/timers", "engine/store/wire"},
	"engine/store/timers":    {"engine/event", "engine/store", "engine/store/scripts", "engine/store/wire"},
	"engine/store/processes": {"engine/event", "engine/store", "engine/store/wire"},
	"engine/store/registry":  {"engine/store", "engine/store/scripts", "engine/store/wire"},
	"engine/store/inspect":   {"engine/event", "engine/store", "engine/store/scripts", "engine/store/stream", "engine/store/timers", "engine/store/wire", "engine/store/processes"},
	"engine/store/redistest": {"engine/store/wire"},
	"engine/store/transfer":  {"engine/event", "engine/store", "engine/store/timers", "engine/store/wire", "engine/store/processes"},
	"engine/definitions":     {"engine/decide", "engine/dsl", "engine/event", "engine/store", "engine/store/registry"},
	"engine/examine":         {"engine/decide", "engine/event", "engine/definitions", "engine/store", "engine/store/inspect", "engine/store/timers"},
	"engine/delivery":        {"engine/event", "engine/queue", "engine/store", "engine/store/stream"},
	"engine/worker":          {"engine/event", "engine/dsl", "engine/expr/canonical", "engine/decide", "engine/history", "engine/queue", "engine/store", "engine/store/inspect", "engine/store/stream", "engine/store/timers", "engine/definitions", "engine/delivery"},

	"engine/executor":          {"engine/event", "engine/dsl", "engine/expr", "engine/expr/canonical", "engine/decide", "engine/queue", "engine/store", "engine/store/stream", "engine/definitions", "engine/delivery", "engine/executor/..."},
	"engine/executor/breaker":  {},
	"engine/executor/call":     {"engine/event", "engine/dsl", "engine/expr", "engine/expr/canonical", "engine/decide"},
	"engine/executor/endpoint": {"engine/dsl", "engine/expr/canonical", "engine/executor/call"},
	"engine/executor/content":  {"engine/expr/canonical", "engine/executor/call", "engine/executor/endpoint"},
	"engine/executor/http":     {"engine/event", "engine/dsl", "engine/expr", "engine/expr/canonical", "engine/executor/breaker", "engine/executor/call", "engine/executor/content", "engine/executor/endpoint", "engine/excerpt"},
	"engine/executor/openapi":  {"engine/event", "engine/dsl", "engine/expr/canonical", "engine/spelling", "engine/executor/call", "engine/executor/content", "engine/executor/endpoint", "engine/executor/http", "engine/excerpt"},

	"engine/telemetry/otlp": {"engine/event", "engine/history", "engine/store"},
	"engine/telemetry":      {"engine", "engine/bridge", "engine/event", "engine/schedule", "engine/scheduler", "engine/store", "engine/store/inspect", "engine/store/timers", "engine/delivery", "engine/executor/breaker"},
	"engine/timer":          {"engine/event", "engine/dsl", "engine/store", "engine/store/timers", "engine/delivery"},
	"engine/torture":        {},

	"engine/schedule":              {"engine/event", "engine/history"},
	"engine/agenda":                {"engine/schedule", "engine/store", "engine/store/scripts", "engine/store/wire"},
	"engine/dynamo":                {"engine/schedule"},
	"engine/dynamo/dynamotest":     {"engine/dynamo"},
	"engine/bridge":                {"engine/cloudevents", "engine/delivery", "engine/event", "engine/store", "engine/store/stream"},
	"engine/cloudevents":           {"engine/event"},
	"engine/bridge/bridgetest":     {"engine/bridge", "engine/cloudevents", "engine/delivery", "engine/event", "engine/store", "engine/store/redistest", "engine/store/stream", "engine/store/wire"},
	"engine/kafka":                 {"engine/cloudevents", "engine/schedule"},
	"engine/nats":                  {"engine/cloudevents"},
	"engine/scheduler":             {"engine", "engine/agenda", "engine/event", "engine/schedule", "engine/store", "engine/store/wire", "engine/store/registry"},
	"engine/scheduler/server":      {"engine/event", "engine/lazyregexp", "engine/schedule", "engine/scheduler", "engine/scheduler/schedulerpb"},
	"engine/scheduler/schedulerpb": {},
	"engine/scheduler/ledgertest":  {"engine/schedule", "engine/scheduler"},
	"engine/scheduler/tabletest":   {"engine/schedule", "engine/scheduler"},
	"engine/scheduler/brokertest":  {"engine/schedule", "engine/scheduler"},
	"cmd/schedule":                 {"cmd/cli", "engine/dsl", "engine/dynamo", "engine/event", "engine/kafka", "engine/history", "engine/schedule", "engine/scheduler/schedulerpb", "engine/scheduler/server"},

	"sim":           {"engine/...", "sim/invariant", "sim/lua", "sim/memory", "sim/mini", "sim/mock", "sim/resp"},
	"sim/invariant": {"engine/decide", "engine/dsl", "engine/event", "engine/expr", "engine/expr/canonical", "engine/history", "engine/store/timers"},
	"sim/search":    {"engine/...", "sim", "sim/explore", "sim/invariant", "sim/mock", "sim/recording", "sim/workload"},
	"sim/recording": {"engine/...", "sim", "sim/mock"},
	"sim/workload":  {"engine/...", "sim", "sim/mock"},
	"sim/memory":    {"sim/lua", "sim/resp"},
	"sim/lua":       {"sim/resp"},
	"sim/mini":      {"sim/lua", "sim/resp"},
	"sim/resp":      {},
	"sim/mock":      {"engine/decide", "engine/dsl", "engine/event", "engine/executor/http", "engine/yaml"},
	"sim/table":     {"engine/schedule"},
	"sim/broker":    {"engine/cloudevents", "engine/schedule"},
	"sim/spec":      {"engine/...", "sim", "sim/mock"},

	"sim/conformance": {"engine/...", "sim/mock"},
	"tui/background":  {},
	"tui":             {"engine", "engine/dsl", "engine/history", "tui/axis", "tui/background", "tui/canvas", "tui/quiet"},
	"tui/axis":        {"engine/history"},
	"tui/canvas":      {"engine/history"},
	"tui/quiet":       {},
	"workflows":       {"engine/spelling"},

	"sim/explore":    {},
	"sim/scheduling": {"engine/...", "sim", "sim/broker", "sim/explore", "sim/memory", "sim/table"},
}

// The arrows between packages point one way. Tests may import anything.
func TestLayers(t *testing.T) {
	t.Parallel()
	for folder, imports := range packages(t) {
		allowed, known := arrows[folder]
		if !known {
			t.Errorf("package %s has no line in arrows: list the packages of this module that it may import", folder)
			continue
		}
		for _, imported := range imports {
			if !slices.ContainsFunc(allowed, func(a string) bool { return covers(a, imported) }) {
				t.Errorf("package %s imports %s, may import %v", folder, imported, allowed)
			}
		}
	}
}

// packages returns the packages of this module that each folder with production code imports.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && file != "." && (name == "testdata" || name[0] == '.') {
			return fs.SkipDir
		}
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		folder := path.Dir(file)
		found[folder] = append(found[folder], imports(t, file)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), path.Join(root, file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if folder, ok := strings.CutPrefix(imported, module+"/"); ok {
			ours = append(ours, folder)
		}
	}
	return ours
}

func covers(allowed, imported string) bool {
	if folder, ok := strings.CutSuffix(allowed, "/..."); ok {
		return imported == folder || strings.HasPrefix(imported, folder+"/")
	}
	return imported == allowed
}
