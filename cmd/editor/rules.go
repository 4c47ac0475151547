package editor

import (
	"bytes"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/yaml"
)

// The rules of the linter, in addition to those of dsl.Rules.
const (
	ruleListenTimeout = "listen-timeout"
	ruleUnused        = "unused"
	ruleTaskName      = "task-name"
	ruleVariable      = "uri-variable"
	ruleBoolean       = "boolean"
	ruleIgnore        = "ignore"

	// For documents that other runtimes also run.
	ruleCallTimeout   = "call-timeout"
	ruleSwitchDefault = "switch-default"
	ruleRetryAndDo    = "retry-and-do"
	ruleNestedEnd     = "nested-end"
	ruleEmitOutput    = "emit-output"
	ruleForkOutput    = "fork-output"
	ruleEventPattern  = "event-pattern"
	ruleReadRaw       = "read-raw"
)

// rules returns the rules that always apply, and those for portable documents.
func rules() (always, portable []dsl.Rule) {
	always = append(dsl.Rules(), []dsl.Rule{
		{Name: ruleListenTimeout, About: "a listen that may wait forever"},
		{Name: ruleVariable, About: "a URI template with a variable that the input lacks"},
		{Name: ruleBoolean, About: "yes, no, on or off: a string here, a boolean in YAML 1.1"},
		{Name: ruleUnused, About: "a part of use that nothing refers to"},
		{Name: ruleTaskName, About: "a task that is named like a flow directive"},
		{Name: ruleIgnore, About: "a comment that ignores an unknown rule"},
	}...)
	return always, []dsl.Rule{
		{Name: ruleCallTimeout, About: "a call without a timeout"},
		{Name: ruleSwitchDefault, About: "a switch without a default, which may fault"},
		{Name: ruleRetryAndDo, About: "retry and do in one catch: when do runs differs"},
		{Name: ruleNestedEnd, About: "end in a nested list, which may end only the list"},
		{Name: ruleEmitOutput, About: "an emit without output.as: the event or the input"},
		{Name: ruleForkOutput, About: "a fork without output.as: a list or a map"},
		{Name: ruleEventPattern, About: "a regular expression in an event filter"},
		{Name: ruleReadRaw, About: "read: raw, which each runtime reads differently"},
	}
}

// Lint returns what is valid but probably wrong in a document, in document order: the warnings of
// dsl.Parse and those of the rules. It returns the error of dsl.Parse.
func Lint(name string, source []byte, portable bool) ([]yaml.Warning, error) {
	def, warnings, err := dsl.Parse(name, source)
	if err != nil {
		return nil, err
	}
	l := &linter{Collector: yaml.NewCollector(name), def: def, portable: portable}
	l.root = yaml.Read(l.Collector, bytes.TrimPrefix(source, []byte("\ufeff")))
	for ref, t := range def.Tasks() {
		l.task(ref, t)
	}
	l.lists()
	l.booleans()
	l.unused()
	l.ignores(yaml.Ignored(source))
	for _, w := range warnings {
		l.Warnings = append(l.Warnings, yaml.Mistake(w))
	}
	warnings, _ = l.Result(source) // the document has no mistakes
	return warnings, nil
}

// linter applies the rules to one document.
type linter struct {
	*yaml.Collector
	def      *dsl.Definition
	root     *yaml.Node
	portable bool
}

// task checks a task by itself.
func (l *linter) task(ref string, t *dsl.Task) {
	_, n := l.root.At(ref)
	if slices.Contains([]string{dsl.Continue, dsl.Exit, dsl.End}, t.Name) {
		l.Warn(ruleTaskName, t.Pos, "give it another name", "no then can lead to a task that is named %s", t.Name)
	}
	if t.Kind == dsl.Listen && !l.bounded(ref, t) {
		l.Warn(ruleListenTimeout, n.KeyPos("listen"), "add `timeout: {after: P7D}` to the task, to one around it or to the workflow; "+
			"if it may wait forever, add the comment # flunq-lint: ignore "+ruleListenTimeout, "this waits forever if the event does not arrive")
	}
	if l.portable {
		l.portability(ref, t, n)
	}
}

// bounded reports whether a task ends eventually, by a timeout, because another branch wins, or by
// an event that the workflow itself sends later; or is obviously not meant to end.
func (l *linter) bounded(ref string, t *dsl.Task) bool {
	if strings.HasPrefix(ref, "/use/") || l.def.Timed(ref) || l.def.Competes(ref) {
		return true // the timeout of a function is where it is called
	}
	if t.Listen != nil && t.Listen.To.Until != nil && t.Listen.To.Until.Source() == "false" {
		return true // meant to listen forever
	}
	for above, other := range l.def.Tasks() {
		if other.Kind == dsl.Emit {
			_, event := l.root.At(above + "/emit/event/with")
			if event.Get("flunqafter") != nil && t.Listen != nil && l.hears(ref, event.Get("type").Text()) {
				return true
			}
		}
	}
	return false
}

// hears reports whether a listen names a type of events.
func (l *linter) hears(ref, eventType string) bool {
	_, to := l.root.At(ref + "/listen/to")
	found := false
	walk(to, func(key string, n *yaml.Node) {
		found = found || key == "type" && n.Text() == eventType
	})
	return found
}

// walk visits all members of maps in a value.
func walk(n *yaml.Node, visit func(key string, n *yaml.Node)) {
	if n == nil {
		return
	}
	for _, f := range n.Fields {
		visit(f.Key, f.Value)
		walk(f.Value, visit)
	}
	for _, item := range n.Items {
		visit("", item)
		walk(item, visit)
	}
}

// lists applies the rules that depend on the previous task to all lists of tasks.
func (l *linter) lists() {
	check := func(list dsl.TaskList) {
		for i, t := range list {
			l.variables(list, i, t)
		}
	}
	check(l.def.Do)
	for _, t := range l.def.Tasks() {
		if t.Fork != nil {
			continue // its branches do not follow each other
		}
		for _, list := range t.Lists() {
			check(list)
		}
	}
}

var templateVariable = lazyregexp.New(`\{([A-Za-z0-9_-]+)\}`)

// variables checks the URI template of a call whose input is known from input.from or from the set
// task before it.
func (l *linter) variables(list dsl.TaskList, i int, t *dsl.Task) {
	if t.Call == nil || t.Call.HTTP == nil {
		return
	}
	at, endpoint := l.root.At(t.Ref + "/with/endpoint")
	if uri := endpoint.Get("uri"); uri != nil {
		at, endpoint = uri.Pos, uri
	}
	_, known := l.root.At(t.Ref + "/input/from")
	if known == nil && i > 0 && !jumpsTo(list, t.Name) {
		if before := list[i-1]; before.Kind == dsl.Set && before.Output.As == nil && before.If == nil {
			_, known = l.root.At(before.Ref + "/set")
		}
	}
	if endpoint == nil || known == nil || known.Shape != yaml.Object || strings.Contains(endpoint.Text(), "${") {
		return
	}
	var names []string
	for _, f := range known.Fields {
		names = append(names, f.Key)
	}
	for _, m := range templateVariable().FindAllStringSubmatch(endpoint.Text(), -1) {
		if !slices.Contains(names, m[1]) {
			suggestion := "the input has " + strings.Join(names, ", ")
			if meant := spelling.Word(m[1], names); meant != "" {
				suggestion = "did you mean {" + meant + "}?"
			}
			l.Warn(ruleVariable, at, suggestion, "the input has no member %s: %s becomes empty", m[1], m[0])
		}
	}
}

// jumpsTo reports whether a then in a list leads to a task.
func jumpsTo(list dsl.TaskList, name string) bool {
	return slices.ContainsFunc(list, func(t *dsl.Task) bool {
		return t.Then == name || t.Try != nil && t.Try.Catch.Then == name ||
			slices.ContainsFunc(t.Switch, func(c dsl.SwitchCase) bool { return c.Then == name })
	})
}

// booleans finds values that YAML 1.1, which some runtimes use, treats as booleans.
func (l *linter) booleans() {
	walk(l.root, func(_ string, n *yaml.Node) {
		if n.Shape == yaml.Text && n.Style == yaml.Plain && slices.Contains([]string{"yes", "no", "on", "off"}, strings.ToLower(n.Text())) {
			l.Warn(ruleBoolean, n.Pos, "write true or false, or quote it if it is meant as a string", "%s is a string here, and a boolean in YAML 1.1", n.Text())
		}
	})
}

// unused finds the parts of use that nothing refers to.
func (l *linter) unused() {
	use := l.root.Get("use")
	names := map[string]map[string]bool{} // key → its values anywhere in the document
	var secrets strings.Builder
	walk(l.root, func(key string, n *yaml.Node) {
		if names[key] == nil {
			names[key] = map[string]bool{}
		}
		names[key][n.Text()] = true
		if strings.Contains(n.Text(), "$secrets") {
			secrets.WriteString(n.Text() + "\n")
		}
	})
	for section, key := range map[string]string{"functions": "call", "retries": "retry", "timeouts": "timeout", "errors": "error", "authentications": "use"} {
		if parts := use.Get(section); parts != nil {
			for _, f := range parts.Fields {
				if !names[key][f.Key] {
					l.Warn(ruleUnused, f.Pos, "remove it", "nothing refers to use.%s.%s", section, yaml.Short(f.Key))
				}
			}
		}
	}
	if use.Get("secrets") == nil || computedSecret().MatchString(secrets.String()) {
		return
	}
	for _, item := range use.Get("secrets").Items {
		if !names["use"][item.Text()] && !strings.Contains(secrets.String(), item.Text()) {
			l.Warn(ruleUnused, item.Pos, "remove it", "nothing reads the secret %s", yaml.Short(item.Text()))
		}
	}
}

// computedSecret matches a use of $secrets that does not name the secret.
var computedSecret = lazyregexp.New(`\$secrets\s*(?:[^.\s\["]|\.?\[[^"]|$)`)

// ignores checks the comments that ignore rules.
func (l *linter) ignores(all yaml.Ignores) {
	var names []string
	always, portable := rules()
	for _, r := range append(always, portable...) {
		names = append(names, r.Name)
	}
	for _, i := range all {
		for _, rule := range i.Rules {
			if slices.Contains(names, rule) {
				continue
			}
			suggestion := "flunq lint --help lists the rules"
			if meant := spelling.Word(rule, names); meant != "" {
				suggestion = "did you mean " + meant + "?"
			}
			l.Warn(ruleIgnore, i.Pos, suggestion, "unknown rule %s", rule)
		}
	}
}

var pattern = lazyregexp.New(`[*+?|\\^$()\[\]]`)

// portability finds what other runtimes do differently.
func (l *linter) portability(ref string, t *dsl.Task, n *yaml.Node) {
	then, _ := l.root.At(ref + "/then")
	own := n.KeyPos(string(t.Kind))
	if t.Then == dsl.End && strings.Count(ref, "/") > 3 {
		l.Warn(ruleNestedEnd, then, "set a value and branch with a switch in the outer list", "end in a nested list ends the workflow here, and only the list in some runtimes")
	}
	switch {
	case t.Call != nil && t.Call.Function == nil && !l.bounded(ref, t):
		l.Warn(ruleCallTimeout, own, "add `timeout: {after: PT1M}`", "flunq gives up after a minute, other runtimes may not")
	case t.Kind == dsl.Switch && !slices.ContainsFunc(t.Switch, func(c dsl.SwitchCase) bool { return c.When == nil }):
		l.Warn(ruleSwitchDefault, own, "add a case without when: `- otherwise: {then: continue}`", "if no case is true, flunq continues with the next task, and some runtimes fault")
	case t.Kind == dsl.Emit && t.Output.As == nil:
		l.Warn(ruleEmitOutput, own, "add `output: {as: $input}`, or do not use its output", "the output is the event here, and the input in some runtimes")
	case t.Fork != nil && !t.Fork.Compete && t.Output.As == nil:
		l.Warn(ruleForkOutput, own, "export what you need in the tasks after it", "the output is a list of the outputs here, and a map or empty in some runtimes")
	case t.Try != nil && t.Try.Catch.Retry != nil && t.Try.Catch.Do != nil:
		at, _ := l.root.At(ref + "/catch/do")
		l.Warn(ruleRetryAndDo, at, "put the try with the retry into another one with the do", "do runs after the last retry here, and at each failure or never in some runtimes")
	case t.Listen != nil:
		if t.Listen.Read == "raw" {
			at, _ := l.root.At(ref + "/listen/read")
			l.Warn(ruleReadRaw, at, "read the data or the envelope", "each runtime reads raw differently")
		}
		_, to := l.root.At(ref + "/listen/to")
		walk(to, func(key string, with *yaml.Node) {
			if key != "with" {
				return
			}
			for _, f := range with.Fields {
				if text := f.Value.Text(); f.Key != "data" && !strings.Contains(text, "${") && pattern().MatchString(text) {
					l.Warn(ruleEventPattern, f.Value.Pos, "write an expression on the data, or one filter for each string", "flunq reads this as a regular expression, some runtimes as a plain string")
				}
			}
		})
	}
}
