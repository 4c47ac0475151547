package dsl

import (
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/yaml"
)

// document parses a whole workflow: its header, what all its tasks share, and the tasks.
type document struct {
	*tasks
	connections *connections
}

// newest is the DSL version that this package implements.
const newest = "1.0.3"

var (
	versionPattern = lazyregexp.New(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)
	namePattern    = lazyregexp.New(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)
	notInName      = lazyregexp.New(`[^a-zA-Z0-9]+`)
)

// newDocument returns a parser that fills def. Each type calls only those before it: reader,
// expressions, connections, then dataFlow, faults, events, calls and processes, then tasks,
// and document last. Jumps and reachability are checked after the tasks are parsed.
func newDocument(name string, text []byte, def *Definition) *document {
	r := &reader{Collector: yaml.NewCollector(name, languageKeys()...)}
	e := &expressions{reader: r, source: newSource(text)}
	c := &connections{expressions: e, policies: map[string]*Authentication{}}
	return &document{connections: c, tasks: &tasks{
		expressions: e,
		dataFlow:    &dataFlow{c},
		faults:      &faults{expressions: e, templates: map[string]*ErrorTemplate{}, retryPolicies: map[[2]string]*RetryPolicy{}},
		events:      &events{e},
		calls:       &calls{c},
		processes:   &processes{c},
		jumps:       &jumps{reader: r, places: map[string][]string{}},
		reach:       &reachability{reader: r, endless: map[*Task]bool{}},
		def:         def,
	}}
}

// parse parses the whole workflow.
func (p *document) parse(n *yaml.Node) {
	if n.Shape != yaml.Object {
		p.wrong(n, "the workflow", "a map with document: and do:")
		return
	}
	if states := n.Get("states"); states != nil && n.Get("do") == nil {
		p.Mistake(n.KeyPos("states"), "rewrite the workflow for "+newest+": document:, do:", "states belong to the old 0.8 language, want 1.0")
		return
	}
	p.moveUp(n)
	p.topLevel(n)
	p.def.Raw = n.Data
	if m := n.Get("evaluate"); m != nil {
		p.evaluate(m)
	}
	if m := n.Get("document"); m != nil {
		p.header(m)
	}
	if m := n.Get("use"); m != nil {
		p.use(m)
	}
	if m := n.Get("schedule"); m != nil {
		p.cannotStart(n.KeyPos("schedule"), "schedule", "/schedule")
		p.events.schedule(m)
	}
	p.def.Input = p.dataFlow.input(n.Get("input"), workflowInput(), p.noteUnsupported("/input"))
	p.reach.timed = n.Get("timeout") != nil
	p.def.Do = p.taskList(n.Get("do"), "do", place{ref: "/do"})
	p.def.Timeout = p.faults.timeout(n.Get("timeout"), workflowOutput())
	p.def.Output = p.dataFlow.output(n.Get("output"), "output", workflowOutput(), p.noteUnsupported("/output"))
	p.jumps.check()
	p.faults.unusedRetries()
	p.def.Secrets = p.secrets
	for _, w := range p.Warnings {
		if w.Rule == ruleUnsupported {
			p.def.CannotRun = append(p.def.CannotRun, yaml.Warning(w))
		}
	}
}

// moveUp moves the top-level sections out of `document:` if they are nested there by
// mistake.
func (p *document) moveUp(n *yaml.Node) {
	header := n.Get("document")
	for _, name := range []string{"do", "input", "output", "use", "timeout"} {
		if m := header.Get(name); m != nil && n.Get(name) == nil {
			p.Mistake(header.KeyPos(name), "indent it like `document:`", "%s is inside document", name)
			n.Fields = append(slices.Clip(n.Fields), yaml.Field{Key: name, Pos: header.KeyPos(name), Value: m})
			header.Fields = slices.DeleteFunc(slices.Clone(header.Fields), func(f yaml.Field) bool { return f.Key == name })
		}
	}
}

// cannotStart records a construct of the document itself that this version cannot run, and warns about it.
func (p *document) cannotStart(at yaml.Pos, construct, ref string) {
	p.def.Unsupported = append(p.def.Unsupported, Unsupported{construct, ref})
	p.warnUnrunnable(at, construct, instead(construct), "starts")
}

// noteUnsupported returns a function that records a construct of the document itself that
// flunq cannot run.
func (p *document) noteUnsupported(ref string) func(construct string) {
	return func(construct string) {
		p.def.Unsupported = append(p.def.Unsupported, Unsupported{construct, ref})
	}
}

// topLevel checks the top-level keys. The official schema accepts any, so a key that does not look
// like a typo is only a warning.
func (p *document) topLevel(n *yaml.Node) {
	m := keys("document", "input", "use", "do", "timeout", "output", "schedule", "evaluate").need("document", "do")
	free := absent(n, m.known)
	fitting := *n
	fitting.Fields = nil
	for i, f := range n.Fields {
		switch {
		case slices.Contains(m.known, f.Key):
			fitting.Fields = append(fitting.Fields, f)
		case closest(f.Key, free) != "":
			p.Mistake(f.Pos, p.guessKey(f.Key, free, m.known), "unknown key %s in the workflow", yaml.Quote(f.Key))
			fitting.Fields = append(fitting.Fields, yaml.Field{Key: closest(f.Key, free), Pos: f.Pos, Value: f.Value})
			n.Fields[i].Key = closest(f.Key, free) // to report mistakes in its value, too
		case slices.Contains([]string{"id", "name", "version", "specVersion", "namespace", "dsl"}, f.Key):
			p.Mistake(f.Pos, "put it under `document:`", "unknown key %s in the workflow", yaml.Quote(f.Key))
		default:
			p.Warn(ruleUnknownKey, f.Pos, "allowed keys: "+strings.Join(m.known, ", "), "%s is not a known key of the workflow: it is ignored", yaml.Quote(f.Key))
		}
	}
	p.object(&fitting, "the workflow", m)
}

// header parses "document".
func (p *document) header(n *yaml.Node) {
	if !p.object(n, "document", keys("dsl", "namespace", "name", "version", "title", "summary", "tags", "metadata").
		need("dsl", "namespace", "name", "version")) {
		return
	}
	d := &p.def.Document
	d.DSL = p.version(n.Get("dsl"), "dsl", newest)
	d.Namespace = p.name(n.Get("namespace"), "namespace")
	d.Name = p.name(n.Get("name"), "name")
	d.Version = p.version(n.Get("version"), "version", "0.1.0")
	// A title and a summary must be texts; nothing uses them.
	_, _ = p.text(n.Get("title"), "title")
	_, _ = p.text(n.Get("summary"), "summary")
	for _, f := range p.mapOf(n.Get("tags"), "tags") {
		if shape := f.Value.Shape; shape == yaml.Text || shape == yaml.Number || shape == yaml.Boolean {
			if d.Tags == nil {
				d.Tags = map[string]string{}
			}
			d.Tags[f.Key] = fmt.Sprint(f.Value.Data)
		}
	}
	p.mapOf(n.Get("metadata"), "metadata")
	if d.DSL != "" {
		p.language(n.Get("dsl"), d.DSL)
	}
}

// language reports an unsupported DSL version, and warns about a newer one.
func (p *document) language(n *yaml.Node, version string) {
	major, _, _ := strings.Cut(version, ".")
	switch {
	case major == "0":
		p.Mistake(n.Pos, "rewrite the workflow for "+newest+": document:, do:", "dsl %s is the old 0.8 language, want 1.0", version)
	case major != "1":
		p.Mistake(n.Pos, "dsl: '"+newest+"'", "dsl %s is unknown, want 1.0", version)
	case Newer(version):
		p.Warn(ruleVersion, n.Pos, "", "dsl %s is newer than %s: flunq does not know what is new in it", version, newest)
	}
}

// Newer reports whether a DSL version is after the newest one that this package implements.
func Newer(version string) bool {
	var minor, patch int
	_, err := fmt.Sscanf(version, "1.%d.%d", &minor, &patch)
	return err != nil || minor > 0 || patch > 3
}

// version checks a semantic version. YAML reads a version with only two parts as a number.
func (p *document) version(n *yaml.Node, what, example string) string {
	if n == nil {
		return ""
	}
	if n.Shape == yaml.Number {
		p.Mistake(n.Pos, fmt.Sprintf("write all three parts, in quotes: %s: '%s'", what, threeParts(fmt.Sprint(n.Data), example)),
			"document.%s: YAML reads this version as a number", what)
		return ""
	}
	s, ok := p.text(n, "document."+what)
	if ok && !versionPattern().MatchString(s) {
		p.Mistake(n.Pos, "write it as '"+threeParts(s, example)+"'", "document.%s: %s is not a semantic version", what, yaml.Quote(s))
		return ""
	}
	return s
}

// threeParts completes a version of one or two numbers.
func threeParts(s, example string) string {
	s = strings.TrimPrefix(s, "v")
	for range 3 {
		if versionPattern().MatchString(s) {
			return s
		}
		s += ".0"
	}
	return example
}

// IsName reports whether name is valid for a workflow or a namespace: 1 to 63 letters, digits and inner
// hyphens.
func IsName(name string) bool { return namePattern().MatchString(name) }

func (p *document) name(n *yaml.Node, what string) string {
	s, ok := p.text(n, "document."+what)
	if !ok || IsName(s) {
		return s
	}
	fixed := strings.Trim(notInName().ReplaceAllString(s, "-"), "-")
	if len(fixed) > 63 {
		fixed = strings.Trim(fixed[:63], "-")
	}
	suggestion := "use at most 63 letters, digits and inner hyphens"
	if fixed != "" {
		suggestion = "write it as " + fixed
	}
	p.Mistake(n.Pos, suggestion, "document.%s: %s is not a valid name: want at most 63 letters, digits and inner hyphens", what, yaml.Quote(s))
	return ""
}

func (p *document) evaluate(n *yaml.Node) {
	if !p.object(n, "evaluate", keys("language", "mode")) {
		return
	}
	p.loose = p.word(n.Get("mode"), "evaluate.mode", "strict", "strict", "loose") == "loose"
	if language := n.Get("language"); language != nil {
		if s, ok := p.text(language, "evaluate.language"); ok && s != "jq" {
			p.Mistake(language.Pos, "language: jq", "evaluate.language: %s is unknown", yaml.Quote(s))
		}
	}
}
