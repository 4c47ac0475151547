package engine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/timer"
	"flunq.io/flunq/engine/worker"
)

// The service that the comment of an event type names handles the events, and no other one does.
func TestEventTypes(t *testing.T) {
	t.Parallel()
	for typ, comment := range eventTypes(t) {
		_, receiver, sent := strings.Cut(comment, " → ")
		receiver, _, _ = strings.Cut(receiver, ":")
		if !sent && !strings.HasPrefix(comment, "in histories only") {
			t.Errorf("%s: the comment %q does not say who handles it: want SENDER → RECEIVER, or in histories only", typ, comment)
		}
		for service, handles := range map[string]func(event.Type) bool{
			"worker": worker.Handles, "executor": executor.Handles, "timer": timer.Handles,
		} {
			if named := strings.HasPrefix(receiver, service); handles(typ) != named {
				t.Errorf("%s is sent to %q, but %s.Handles(it) is %t", typ, receiver, service, handles(typ))
			}
		}
		if worker.Handles(typ) || strings.Contains(comment, "in histories") {
			if err := apply(t, typ); err != nil && strings.Contains(err.Error(), "which no execution accepts") {
				t.Errorf("decide: %v", err)
			}
		}
	}
}

// eventTypes returns the comments of the types that package event declares.
func eventTypes(t *testing.T) map[event.Type]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "event/event.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[event.Type]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, _ := spec.Type.(*ast.Ident); typ == nil || typ.Name != "Type" {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BinaryExpr).Y.(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		out[event.Prefix+event.Type(name)] = strings.TrimSpace(spec.Comment.Text())
		return true
	})
	return out
}

// apply applies an event without data to an execution that has begun.
func apply(t *testing.T, typ event.Type) (err error) {
	t.Helper()
	def, _, err := dsl.Parse("rest.yaml", []byte("document: {dsl: '1.0.3', namespace: test, name: rest, version: '1.0.0'}\ndo: [{rest: {wait: PT1H}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := decide.New()
	for _, typ := range []event.Type{event.ExecutionStarted, typ} {
		e := event.Event{ID: string(typ), Type: typ, Workflow: def.ID(), Execution: "x", Data: []byte(`{}`)}
		_, err = s.Apply(decide.NewEnv(def, decide.Options{}), e, &decide.Decision{})
	}
	return err
}
