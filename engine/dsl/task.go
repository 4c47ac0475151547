package dsl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/spelling"
)

// place is the position of a task in the workflow.
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

// tasks parses a list of tasks. A nil node is an empty list.
func (p *parser) tasks(n *node, what, ref string, local scope) TaskList {
	return p.taskList(n, what, place{ref: ref, local: local})
}

// taskList is like tasks, for a list at a place; at.ref is the list's reference.
func (p *parser) taskList(n *node, what string, at place) TaskList {
	if n == nil {
		return nil
	}
	fields, refs := p.taskFields(n, what, at.ref)
	known := len(p.mistakes)
	at.siblings = &siblings{known: make(map[string]Pos, len(fields))}
	for _, f := range fields {
		if pos, twice := at.siblings.known[f.key]; twice {
			p.mistake(f.pos, "give it another name", "a task %s is in this list already: on line %d", quote(f.key), pos.Line)
			continue
		}
		at.siblings.known[f.key] = f.pos
		at.siblings.names = append(at.siblings.names, f.key)
	}
	out := make(TaskList, 0, len(fields))
	for i, f := range fields {
		t := &Task{}
		at.ref = refs[i]
		p.task(t, f, at)
		out = append(out, t)
	}
	if len(p.mistakes) == known { // a mistake in an if, when or then would make this analysis wrong
		p.reach(out, fields, at.branch)
	}
	return out
}

// taskFields returns the names and bodies of a list's tasks, and their references.
func (p *parser) taskFields(n *node, what, ref string) (fields []field, refs []string) {
	if n.shape != list {
		if n.shape == object && membersOnly(n.fields) {
			p.mistake(n.Pos, fmt.Sprintf("write a list with a name for the task: `- name: {%s: …}`", short(n.fields[0].key)),
				"%s: want a list of tasks, this is the body of one", what)
			return []field{{"?", n.Pos, n}}, []string{pointer(pointer(ref, "0"), "?")}
		}
		p.mistake(n.Pos, "put `- ` before each task", "%s: want a list of tasks, each `- name: {…}`; this is %s", what, n.shape)
		for i, f := range n.fields {
			fields, refs = append(fields, f), append(refs, pointer(pointer(ref, strconv.Itoa(i)), f.key))
		}
		return fields, refs
	}
	for i, item := range n.items {
		for _, f := range p.taskItem(item) {
			fields = append(fields, f)
			refs = append(refs, pointer(pointer(ref, strconv.Itoa(i)), f.key))
		}
	}
	return fields, refs
}

// taskItem checks one item of a list of tasks, and returns what can be parsed as a task.
func (p *parser) taskItem(n *node) []field {
	switch {
	case n.shape == text && n.style == 0:
		p.mistake(n.Pos, fmt.Sprintf("write it as `- %s: {…}`", short(n.text())), "a task item wants a name and what to do, this is text")
		return nil
	case n.shape != object:
		p.mistake(n.Pos, "write it as `- name: {…}`", "a task item wants a name and what to do, this is %s", n.shape)
		return nil
	case len(n.fields) == 0:
		p.mistake(n.Pos, "write it as `- name: {…}`", "a task item without a name")
		return nil
	case unnamed(n):
		p.mistake(n.Pos, fmt.Sprintf("write a name before it: `- name: {%s: …}`", short(n.fields[0].key)), "this task has no name")
		return []field{{"?", n.Pos, n}}
	case len(n.fields) == 1:
		return n.fields
	}
	second := n.fields[1]
	first := n.fields[0]
	if first.value.shape == null && membersOnly(n.fields[1:]) {
		p.mistake(second.pos, "indent it, so that it belongs to "+quote(first.key),
			"a task item has exactly one name: %s stands beside %s, not below it", quote(second.key), quote(first.key))
		body := *n
		body.fields = n.fields[1:]
		return []field{{first.key, first.pos, &body}}
	}
	p.mistake(second.pos, fmt.Sprintf("begin a new item: `- %s: …`, or indent it", short(second.key)),
		"a task item has exactly one name: here are %s and %s", quote(first.key), quote(second.key))
	return slices.DeleteFunc(slices.Clone(n.fields), func(f field) bool { return f.value.shape != object })
}

// unnamed reports whether an item is a task's body without its name.
func unnamed(n *node) bool {
	if !membersOnly(n.fields) {
		return false
	}
	only := n.fields[0]
	isKind := func(f field) bool { return slices.Contains(kindKeys(), f.key) }
	return len(n.fields) > 1 || only.value.shape != object || !slices.ContainsFunc(only.value.fields, isKind)
}

// membersOnly reports whether all keys are members of a task, and one of them is a kind.
func membersOnly(fields []field) bool {
	kinds := 0
	for _, f := range fields {
		switch {
		case slices.Contains(kindKeys(), f.key):
			kinds++
		case !slices.Contains(commonKeys(), f.key) && f.key != "with" && f.key != "catch" && f.key != "while" && f.key != "foreach":
			return false
		}
	}
	return kinds > 0
}

// task parses a task into t.
func (p *parser) task(t *Task, f field, at place) {
	t.Name, t.Ref, t.Pos, t.Raw = f.key, at.ref, f.pos, f.value.data
	if _, twice := p.def.tasks[t.Ref]; !twice {
		p.def.refs = append(p.def.refs, t.Ref)
	}
	p.def.tasks[t.Ref] = t
	p.indexTask(t)
	n := f.value
	if n.shape != object {
		suggestion := "write it as `" + short(f.key) + ": {set: …}`"
		if spaced := spacedKey(n.text()); spaced != "" {
			suggestion = "write a space after the colon: " + spaced
		}
		p.mistake(n.Pos, suggestion, "task %s: want a map with what to do, this is %s", quote(f.key), n.shape)
		return
	}
	kind := p.kind(n, t)
	p.common(t, n, at)
	p.body(t, n, at, kind)
}

// indexTask records a task under its name.
func (p *parser) indexTask(t *Task) {
	if p.places == nil {
		p.places = map[string][]string{}
	}
	p.places[t.Name] = append(p.places[t.Name], t.Ref)
}

// kind returns the kind of a task, and checks its keys.
func (p *parser) kind(n *node, t *Task) string {
	var kinds []string
	allowed := commonKeys()
	for _, k := range kindKeys() {
		if n.get(k) == nil || k == "do" && n.get("for") != nil {
			continue
		}
		kinds = append(kinds, k)
		allowed = append(allowed, k)
		allowed = append(allowed, companionKeys(k)...)
	}
	what := "task " + quote(t.Name)
	if len(kinds) == 0 {
		return p.noKind(n, what)
	}
	m := keys(allowed...).orMeant(kindKeys()...)
	if slices.Contains(kinds, "call") {
		m = m.under("with", "method", "endpoint", "uri", "url", "headers", "body", "query", "document", "operationId", "parameters", "redirect")
	}
	if slices.Contains(kinds, "for") || slices.Contains(kinds, "do") && n.get("in") != nil {
		m = m.under("for", "each", "in", "at")
	}
	if slices.Contains(kinds, "try") {
		m = m.under("catch", "retry", "errors", "as", "when", "exceptWhen")
	}
	p.object(n, what, m)
	if len(kinds) > 1 {
		p.mistake(t.Pos, "make two tasks of it", "%s does two things: %s", what, strings.Join(kinds, " and "))
	}
	return kinds[0]
}

// noKind reports a task without a kind. If a misspelt key is the only mistake, it returns
// the kind that was meant.
func (p *parser) noKind(n *node, what string) string {
	all := slices.Concat(kindKeys(), commonKeys(), []string{"with", "while", "foreach", "catch"})
	misspelt := false
	kind := ""
	for i, f := range n.fields {
		if slices.Contains(all, f.key) {
			continue
		}
		p.mistake(f.pos, p.guessKey(f.key, slices.Concat(kindKeys(), commonKeys()), slices.Concat(kindKeys(), commonKeys())),
			"unknown key %s in %s", quote(f.key), what)
		misspelt = misspelt || slices.Contains(kindKeys(), closest(f.key, all))
		if meant := spelling.Word(f.key, kindKeys()); meant != "" && kind == "" && f.value.shape != null {
			kind = meant
			n.fields[i].key = meant // so that mistakes in its value are reported too
		}
	}
	if !misspelt {
		p.mistake(n.Pos, "add one of "+strings.Join(kindKeys(), ", "), "%s does nothing", what)
	}
	return kind
}

// common parses the members that every task may have.
func (p *parser) common(t *Task, n *node, at place) {
	lack := func(construct string) { t.Unsupported = construct }
	before, during := at.local.before(), at.local.during()
	t.If = p.condition(n.get("if"), "if", before)
	t.Input = p.input(n.get("input"), "input", before, lack)
	t.Output = p.output(n.get("output"), "output", during, lack)
	t.Export = p.export(n.get("export"), "export", at.local.exported(), lack)
	t.Timeout = p.timeout(n.get("timeout"), during)
	p.mapOf(n.get("metadata"), "metadata")
	then := n.get("then")
	t.Then = p.then(then, at)
	if then != nil && n.get("if") != nil && t.Then != Continue {
		p.warn(then.Pos, "where that matters, branch with a switch",
			"the then of a task that its if skips does not apply here; other runtimes follow it")
	}
	if at.looped && t.Then == Exit {
		p.warn(then.Pos, "to leave the loop, use `while:`", "exit in a for ends this turn, not the loop")
	}
}

// body parses the members of a task's kind.
func (p *parser) body(t *Task, n *node, at place, kind string) {
	t.Kind = Kind(kind)
	during := at.local.during()
	own := n.get(kind)
	switch t.Kind {
	case Call:
		p.call(t, n, during)
	case Do:
		t.Do = p.tasks(own, "do", t.Ref+"/do", at.local)
	case Emit:
		p.emit(t, own, during)
	case For:
		p.loop(t, n, at.local)
	case Fork:
		p.fork(t, own, at.local)
	case Inject:
		if own.shape != object {
			p.wrong(own, "inject", "a map of data")
		}
		t.Inject = p.value(own, during)
	case Listen:
		p.listen(t, n, at.local)
	case Raise:
		p.raise(t, own, during)
	case Run:
		p.run(t, own, during)
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

func (p *parser) set(t *Task, n *node, s scope) {
	switch {
	case n.shape == object && len(n.fields) == 0:
		p.mistake(n.Pos, "write what to set: {name: value}", "set is empty")
	case n.shape != object && n.shape != text:
		p.wrong(n, "set", "a map of data, or an expression")
	}
	t.Set = p.value(n, s)
}
