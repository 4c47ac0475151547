package graph

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// Detail describes in a few words what a task does.
func Detail(t *dsl.Task) string {
	parts := []string{string(t.Kind)}
	add := func(part string) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	switch t.Kind {
	case dsl.Call:
		add(callDetail(t.Call))
	case dsl.Wait:
		add(duration(t.Wait))
	case dsl.Emit:
		add(text(field(t.Emit, "type")))
	case dsl.For:
		add(t.For.Each + " in " + text(t.For.In))
		if t.For.While != nil {
			add("while " + t.For.While.Source())
		}
	case dsl.Fork:
		if t.Fork.Compete {
			add("(compete)")
		}
	case dsl.Listen:
		add("to " + consumption(t.Listen.To))
	case dsl.Raise:
		add(raiseDetail(t.Raise))
	case dsl.Run:
		add(runDetail(t.Run))
	case dsl.Set:
		add(setDetail(t.Set))
	default:
	}
	if t.Timeout != nil {
		add("(timeout " + duration(t.Timeout) + ")")
	}
	if t.Unsupported != "" {
		add("(cannot run yet)")
	}
	return strings.Join(parts, " ")
}

func documentDetail(def *dsl.Definition) string {
	if def.Timeout == nil {
		return ""
	}
	return "timeout " + duration(def.Timeout)
}

func callDetail(c *dsl.CallTask) string {
	switch {
	case c.HTTP != nil:
		return strings.ToUpper(text(c.HTTP.Method)) + " " + address(c.HTTP.Endpoint.URI)
	case c.OpenAPI != nil:
		return text(c.OpenAPI.OperationID) + " of " + address(c.OpenAPI.Document.URI)
	case c.Function != nil && c.Function.Name != "":
		return "function " + c.Function.Name
	default:
		return c.Protocol
	}
}

// userOf matches the user and password in a URL.
var userOf = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*://)[^/?#@]*@`)

// address returns a URL with its user and password redacted.
func address(uri *expr.Value) string { return userOf.ReplaceAllString(text(uri), "$1***@") }

func consumption(c dsl.Consumption) string {
	var types []string
	for _, f := range c.Filters {
		types = append(types, filter(f))
	}
	events := strings.Join(types, ", ")
	switch {
	case events == "" && c.Mode == "all":
		events = "no event"
	case events == "":
		events = "any event"
	case c.Mode != "one":
		events = c.Mode + " of " + events
	}
	switch {
	case c.Until != nil:
		return events + " until " + c.Until.Source()
	case c.UntilEvent != nil:
		return events + " until " + consumption(*c.UntilEvent)
	default:
		return events
	}
}

func filter(f dsl.EventFilter) string {
	var attributes []string
	for _, a := range f.With {
		if a.Key == "type" {
			return text(a.Value)
		}
		attributes = append(attributes, a.Key+"="+text(a.Value))
	}
	return strings.Join(attributes, " ")
}

func raiseDetail(e *dsl.ErrorTemplate) string {
	kind := text(e.Type)
	kind = kind[strings.LastIndex(kind, "/")+1:]
	return strings.TrimSpace(kind + " " + text(e.Status))
}

func runDetail(r *dsl.RunTask) string {
	if r.Workflow == nil {
		return ""
	}
	detail := "workflow " + text(r.Workflow.Name)
	if r.NoWait {
		detail += " (not awaited)"
	}
	return detail
}

func setDetail(v *expr.Value) string {
	if data, ok := v.Constant(); ok {
		if object, ok := data.(map[string]any); ok {
			return strings.Join(slices.Sorted(maps.Keys(object)), ", ")
		}
	}
	var keys []string
	for _, f := range v.Fields() {
		keys = append(keys, f.Key)
	}
	if len(keys) > 0 {
		return strings.Join(keys, ", ")
	}
	return text(v)
}

func caseLabel(c dsl.SwitchCase) string {
	if c.When == nil {
		return c.Name + " (default)"
	}
	return c.Name + ": " + c.When.Source()
}

func catchDetail(c dsl.Catch) string {
	parts := []string{}
	for _, key := range slices.Sorted(maps.Keys(c.With)) {
		value := fmt.Sprint(c.With[key])
		if key == "type" {
			value = value[strings.LastIndex(value, "/")+1:]
		}
		parts = append(parts, key+"="+value)
	}
	if c.When != nil {
		parts = append(parts, "when "+c.When.Source())
	}
	if c.ExceptWhen != nil {
		parts = append(parts, "except when "+c.ExceptWhen.Source())
	}
	if len(parts) == 0 {
		parts = append(parts, "any error")
	}
	return strings.Join(parts, " ")
}

func retryDetail(r *dsl.RetryPolicy) string {
	detail := "retry"
	if r.AttemptCount > 0 {
		detail += fmt.Sprintf(" %d×", r.AttemptCount)
	}
	if r.Delay != nil {
		detail += " after " + duration(r.Delay)
	}
	if r.Backoff != "" && r.Backoff != "constant" {
		detail += " " + r.Backoff
	}
	if r.Duration != nil {
		detail += " for " + duration(r.Duration)
	}
	return detail
}

// text returns a value as the document spells it, "" if it is absent.
func text(v *expr.Value) string {
	if v == nil {
		return ""
	}
	if p := v.Program(); p != nil {
		return p.Source()
	}
	data, ok := v.Constant()
	if !ok {
		return "{…}"
	}
	if s, ok := data.(string); ok {
		return s
	}
	return string(canonical.Encode(data))
}

// field returns a member of an object value, or nil.
func field(v *expr.Value, key string) *expr.Value {
	for _, f := range v.Fields() {
		if f.Key == key {
			return f.Value
		}
	}
	if data, ok := v.Constant(); ok {
		if object, ok := data.(map[string]any); ok && object[key] != nil {
			return expr.Literal(object[key])
		}
	}
	return nil
}

// duration returns an inline duration ({minutes: 5}) in the short form (PT5M), and any other as the
// document spells it.
func duration(v *expr.Value) string {
	data, _ := v.Constant()
	if _, inline := data.(map[string]any); inline {
		if d, err := dsl.ParseDuration(data); err == nil {
			return d.String()
		}
	}
	return text(v)
}
