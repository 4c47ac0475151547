package dsl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/yaml"
)

// tasks parses lists of tasks, and each task with the members of its kind.
type tasks struct {
	*expressions
	dataFlow  *dataFlow
	faults    *faults
	events    *events
	calls     *calls
	processes *processes
	jumps     *jumps
	reach     *reachability

	def      *Definition
	catalogs []string // the names of use.catalogs
}

// place describes where in the workflow a task is.
type place struct {
	ref      string    // reference of the task
	local    scope     // variables bound by enclosing tasks
	siblings *siblings // possible targets of its then
	looped   bool      // it is in the body of a for
	branch   bool      // it is a branch of a fork
}

// pointer appends a segment to a JSON pointer.
func pointer(ref, segment string) string {
	return ref + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(segment)
}

func commonKeys() []string {
	return []string{"if", "input", "output", "export", "timeout", "then", "metadata"}
}

func kindKeys() []string {
	return []string{"call", "do", "emit", "for", "fork", "inject", "listen", "raise", "run", "set", "switch", "try", "wait"}
}

// languageKeys returns the keys of the language that are recognized if their colon is missing.
func languageKeys() []string {
	return slices.Concat(kindKeys(), commonKeys(),
		[]string{"with", "catch", "while", "foreach", "document", "use", "dsl", "namespace", "name", "version", "method", "endpoint", "when", "in", "each"})
}

// companionKeys returns the keys that go with the key of a kind.
func companionKeys(kind string) []string {
	switch kind {
	case "call":
		return []string{"with"}
	case "for":
		return []string{"do", "while"}
	case "listen":
		return []string{"foreach"}
	case "try":
		return []string{"catch"}
	default:
		return nil
	}
}

// taskList parses a list of tasks at a place; at.ref is the list's reference. A nil node is
// an empty list.
func (p *tasks) taskList(n *yaml.Node, what string, at place) TaskList {
	if n == nil {
		return nil
	}
	fields, refs := p.taskFields(n, what, at.ref)
	known := len(p.Mistakes)
	at.siblings = &siblings{known: make(map[string]yaml.Pos, len(fields))}
	for _, f := range fields {
		if f.Key == "" {
			p.Mistake(f.Pos, "give it one", "the name of this task is empty")
		}
		if pos, twice := at.siblings.known[f.Key]; twice {
			p.Mistake(f.Pos, "give it another name", "this list already has a task %s, on line %d", yaml.Quote(f.Key), pos.Line)
			continue
		}
		at.siblings.known[f.Key] = f.Pos
		at.siblings.names = append(at.siblings.names, f.Key)
	}
	out := make(TaskList, 0, len(fields))
	for i, f := range fields {
		t := &Task{}
		at.ref = refs[i]
		p.task(t, f, at)
		out = append(out, t)
	}
	if len(p.Mistakes) == known && !at.branch { // with a mistake in an if, when or then, the analysis would be wrong
		p.reach.check(out, fields)
	}
	return out
}

// taskFields returns the names and bodies of a list's tasks, and their references.
func (p *tasks) taskFields(n *yaml.Node, what, ref string) (fields []yaml.Field, refs []string) {
	if n.Shape != yaml.List {
		if n.Shape == yaml.Object && membersOnly(n.Fields) {
			p.Mistake(n.Pos, fmt.Sprintf("write a list with a name for the task: `- name: {%s: …}`", yaml.Short(n.Fields[0].Key)),
				"%s: want a list of tasks, this is the body of one", what)
			return []yaml.Field{{Key: "?", Pos: n.Pos, Value: n}}, []string{pointer(pointer(ref, "0"), "?")}
		}
		p.Mistake(n.Pos, "put `- ` before each task", "%s: want a list of tasks, each `- name: {…}`; this is %s", what, n.Shape)
		for i, f := range n.Fields {
			fields, refs = append(fields, f), append(refs, pointer(pointer(ref, strconv.Itoa(i)), f.Key))
		}
		return fields, refs
	}
	for i, item := range n.Items {
		for _, f := range p.taskItem(item) {
			fields = append(fields, f)
			refs = append(refs, pointer(pointer(ref, strconv.Itoa(i)), f.Key))
		}
	}
	return fields, refs
}

// taskItem checks one item of a list of tasks, and returns what can be parsed as tasks.
func (p *tasks) taskItem(n *yaml.Node) []yaml.Field {
	switch {
	case n.Shape == yaml.Text && n.Style == 0:
		p.Mistake(n.Pos, fmt.Sprintf("write it as `- %s: {…}`", yaml.Short(n.Text())), "a task item needs a name and what to do, this is text")
		return nil
	case n.Shape != yaml.Object:
		p.Mistake(n.Pos, "write it as `- name: {…}`", "a task item needs a name and what to do, this is %s", n.Shape)
		return nil
	case len(n.Fields) == 0:
		p.Mistake(n.Pos, "write it as `- name: {…}`", "a task item without a name")
		return nil
	case unnamed(n):
		p.Mistake(n.Pos, fmt.Sprintf("write a name before it: `- name: {%s: …}`", yaml.Short(n.Fields[0].Key)), "this task has no name")
		return []yaml.Field{{Key: "?", Pos: n.Pos, Value: n}}
	case len(n.Fields) == 1:
		return n.Fields
	}
	second := n.Fields[1]
	first := n.Fields[0]
	if first.Value.Shape == yaml.Null && membersOnly(n.Fields[1:]) {
		p.Mistake(second.Pos, "indent it, so that it belongs to "+yaml.Quote(first.Key),
			"a task item has exactly one name: %s is beside %s, not below it", yaml.Quote(second.Key), yaml.Quote(first.Key))
		body := *n
		body.Fields = n.Fields[1:]
		return []yaml.Field{{Key: first.Key, Pos: first.Pos, Value: &body}}
	}
	p.Mistake(second.Pos, fmt.Sprintf("begin a new item: `- %s: …`, or indent it", yaml.Short(second.Key)),
		"a task item has exactly one name, this one has %s and %s", yaml.Quote(first.Key), yaml.Quote(second.Key))
	return slices.DeleteFunc(slices.Clone(n.Fields), func(f yaml.Field) bool { return f.Value.Shape != yaml.Object })
}

// unnamed reports whether an item is the body of a task without its name.
func unnamed(n *yaml.Node) bool {
	if !membersOnly(n.Fields) {
		return false
	}
	only := n.Fields[0]
	isKind := func(f yaml.Field) bool { return slices.Contains(kindKeys(), f.Key) }
	return len(n.Fields) > 1 || only.Value.Shape != yaml.Object || !slices.ContainsFunc(only.Value.Fields, isKind)
}

// membersOnly reports whether all keys are members of a task, and one of them is a kind.
func membersOnly(fields []yaml.Field) bool {
	kinds := 0
	for _, f := range fields {
		switch {
		case slices.Contains(kindKeys(), f.Key):
			kinds++
		case !slices.Contains(commonKeys(), f.Key) && f.Key != "with" && f.Key != "catch" && f.Key != "while" && f.Key != "foreach":
			return false
		}
	}
	return kinds > 0
}

// task parses a task into t.
func (p *tasks) task(t *Task, f yaml.Field, at place) {
	t.Name, t.Ref, t.Pos, t.Raw = f.Key, at.ref, f.Pos, f.Value.Data
	if _, twice := p.def.tasks[t.Ref]; !twice {
		p.def.refs = append(p.def.refs, t.Ref)
	}
	p.def.tasks[t.Ref] = t
	p.jumps.places[t.Name] = append(p.jumps.places[t.Name], t.Ref)
	n := f.Value
	if n.Shape != yaml.Object {
		suggestion := "write it as `" + yaml.Short(f.Key) + ": {set: …}`"
		if spaced := yaml.SpacedKey(n.Text()); spaced != "" {
			suggestion = "write a space after the colon: " + spaced
		}
		p.Mistake(n.Pos, suggestion, "task %s: want a map with what to do, this is %s", yaml.Quote(f.Key), n.Shape)
		return
	}
	kind := p.kind(n, t)
	p.common(t, n, at)
	p.body(t, n, at, kind)
}

// kind returns the kind of a task, and checks its keys.
func (p *tasks) kind(n *yaml.Node, t *Task) string {
	var kinds []string
	allowed := commonKeys()
	for _, k := range kindKeys() {
		if n.Get(k) == nil || k == "do" && n.Get("for") != nil {
			continue
		}
		kinds = append(kinds, k)
		allowed = append(allowed, k)
		allowed = append(allowed, companionKeys(k)...)
	}
	what := "task " + yaml.Quote(t.Name)
	if len(kinds) == 0 {
		return p.noKind(n, what)
	}
	m := keys(allowed...)
	m.hints = kindKeys()
	if slices.Contains(kinds, "call") {
		m = m.under("with", "method", "endpoint", "uri", "url", "headers", "body", "query", "document", "operationId", "parameters", "redirect")
	}
	if slices.Contains(kinds, "for") || slices.Contains(kinds, "do") && n.Get("in") != nil {
		m = m.under("for", "each", "in", "at")
	}
	if slices.Contains(kinds, "try") {
		m = m.under("catch", "retry", "errors", "as", "when", "exceptWhen")
	}
	p.object(n, what, m)
	if len(kinds) > 1 {
		p.Mistake(t.Pos, "split it into two tasks", "%s does two things: %s", what, strings.Join(kinds, " and "))
	}
	return kinds[0]
}

// noKind reports a task without a kind. If its only mistake is a misspelt key, noKind returns the
// kind that was meant.
func (p *tasks) noKind(n *yaml.Node, what string) string {
	all := slices.Concat(kindKeys(), commonKeys(), []string{"with", "while", "foreach", "catch"})
	misspelt := false
	kind := ""
	for i, f := range n.Fields {
		if slices.Contains(all, f.Key) {
			continue
		}
		p.Mistake(f.Pos, p.guessKey(f.Key, slices.Concat(kindKeys(), commonKeys()), slices.Concat(kindKeys(), commonKeys())),
			"unknown key %s in %s", yaml.Quote(f.Key), what)
		misspelt = misspelt || slices.Contains(kindKeys(), closest(f.Key, all))
		if meant := spelling.Word(f.Key, kindKeys()); meant != "" && kind == "" && f.Value.Shape != yaml.Null {
			kind = meant
			n.Fields[i].Key = meant // to report mistakes in its value, too
		}
	}
	if !misspelt {
		p.Mistake(n.Pos, "add one of "+strings.Join(kindKeys(), ", "), "%s does nothing", what)
	}
	return kind
}

// common parses the members that every task may have.
func (p *tasks) common(t *Task, n *yaml.Node, at place) {
	unsupported := func(construct string) { t.Unsupported = construct }
	before, during := at.local.before(), at.local.during()
	t.If = p.condition(n.Get("if"), "if", before)
	t.Input = p.dataFlow.input(n.Get("input"), before, unsupported)
	t.Output = p.dataFlow.output(n.Get("output"), "output", during, unsupported)
	t.Export = p.dataFlow.export(n.Get("export"), "export", at.local.exported(), unsupported)
	t.Timeout = p.faults.timeout(n.Get("timeout"), during)
	p.mapOf(n.Get("metadata"), "metadata")
	then := n.Get("then")
	t.Then = p.then(then, at)
	if then != nil && n.Get("if") != nil && t.Then != Continue {
		p.Warn(ruleSkippedThen, then.Pos, "if that matters, branch with a switch",
			"flunq ignores the then of a task that its if skips; other runtimes follow it")
	}
	if at.looped && t.Then == Exit {
		p.Warn(ruleExitInLoop, then.Pos, "to leave the loop, use `while:`", "exit in a for ends the iteration, not the loop")
	}
}

// then parses a flow directive. Its target is checked once all tasks are known.
func (p *tasks) then(n *yaml.Node, at place) string {
	to, ok := p.text(n, "then")
	if !ok {
		return ""
	}
	switch to {
	case Continue, Exit, End:
	default:
		p.jumps.open = append(p.jumps.open, jump{n.Pos, to, at.siblings, at.branch})
	}
	return to
}

// body parses the members of a task's kind.
func (p *tasks) body(t *Task, n *yaml.Node, at place, kind string) {
	t.Kind = Kind(kind)
	during := at.local.during()
	own := n.Get(kind)
	switch t.Kind {
	case Call:
		p.call(t, n, during)
	case Do:
		t.Do = p.taskList(own, "do", place{ref: t.Ref + "/do", local: at.local})
	case Emit:
		t.Emit = p.events.emit(own, during)
	case For:
		p.loop(t, n, at.local)
	case Fork:
		p.fork(t, own, at.local)
	case Inject:
		if own.Shape != yaml.Object {
			p.wrong(own, "inject", "a map of data")
		}
		t.Inject = p.value(own, during)
	case Listen:
		p.listen(t, n, at.local)
	case Raise:
		t.Raise = p.faults.raise(own, during)
	case Run:
		p.processes.run(t, own, during)
	case Set:
		p.set(t, own, during)
	case Switch:
		p.cases(t, own, at)
	case Try:
		p.try(t, n, at)
	case Wait:
		t.Wait = p.duration(own, "wait", during, true)
	}
}
