package dsl

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/schema"
	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/yaml"
)

// Newest is the DSL version that this package implements.
const Newest = "1.0.3"

var (
	versionPattern = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)
	namePattern    = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)
	typePath       = regexp.MustCompile(`/type(/\d+)?$`)
	notInName      = regexp.MustCompile(`[^a-zA-Z0-9]+`)
)

// document parses the whole workflow.
func (p *parser) document(n *yaml.Node) {
	if n.Shape != yaml.Object {
		p.wrong(n, "the workflow", "a map with document: and do:")
		return
	}
	if states := n.Get("states"); states != nil && n.Get("do") == nil {
		p.Mistake(n.KeyPos("states"), "rewrite the workflow for "+Newest+": document:, do:", "states belong to the old 0.8 language, want 1.0")
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
	p.def.Input = p.input(n.Get("input"), "input", workflowInput(), p.noteUnsupported("/input"))
	p.timed = n.Get("timeout") != nil
	p.def.Do = p.tasks(n.Get("do"), "do", "/do", scope{})
	p.def.Timeout = p.timeout(n.Get("timeout"), workflowOutput())
	p.def.Output = p.output(n.Get("output"), "output", workflowOutput(), p.noteUnsupported("/output"))
	if m := n.Get("schedule"); m != nil {
		p.cannotRun(n.KeyPos("schedule"), "schedule", instead("schedule"))
		p.schedule(m)
	}
	p.checkJumps()
}

// moveUp moves the top-level sections out of `document:` if they are nested there by
// mistake.
func (p *parser) moveUp(n *yaml.Node) {
	header := n.Get("document")
	for _, name := range []string{"do", "input", "output", "use", "timeout"} {
		if m := header.Get(name); m != nil && n.Get(name) == nil {
			p.Mistake(header.KeyPos(name), "indent it as `document:`", "%s stands inside of document", name)
			n.Fields = append(slices.Clip(n.Fields), yaml.Field{Key: name, Pos: header.KeyPos(name), Value: m})
			header.Fields = slices.DeleteFunc(slices.Clone(header.Fields), func(f yaml.Field) bool { return f.Key == name })
		}
	}
}

// noteUnsupported returns a function that records a construct of the document itself that
// flunq cannot run.
func (p *parser) noteUnsupported(ref string) func(construct string) {
	return func(construct string) {
		p.def.Unsupported = append(p.def.Unsupported, Unsupported{construct, ref})
	}
}

// topLevel checks the top-level keys. The official schema accepts any, so a key that is no
// likely typo is only a warning.
func (p *parser) topLevel(n *yaml.Node) {
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
			n.Fields[i].Key = closest(f.Key, free) // so that mistakes in its value are reported too
		case slices.Contains([]string{"id", "name", "version", "specVersion", "namespace", "dsl"}, f.Key):
			p.Mistake(f.Pos, "put it under `document:`", "unknown key %s in the workflow", yaml.Quote(f.Key))
		default:
			p.Warn(f.Pos, "allowed keys: "+strings.Join(m.known, ", "), "%s is not a known key of the workflow: it is ignored", yaml.Quote(f.Key))
		}
	}
	p.object(&fitting, "the workflow", m)
}

// header parses "document".
func (p *parser) header(n *yaml.Node) {
	if !p.object(n, "document", keys("dsl", "namespace", "name", "version", "title", "summary", "tags", "metadata").
		need("dsl", "namespace", "name", "version")) {
		return
	}
	d := &p.def.Document
	d.DSL = p.version(n.Get("dsl"), "dsl", Newest)
	d.Namespace = p.name(n.Get("namespace"), "namespace")
	d.Name = p.name(n.Get("name"), "name")
	d.Version = p.version(n.Get("version"), "version", "0.1.0")
	d.Title, _ = p.text(n.Get("title"), "title")
	d.Summary, _ = p.text(n.Get("summary"), "summary")
	p.mapOf(n.Get("tags"), "tags")
	p.mapOf(n.Get("metadata"), "metadata")
	if d.DSL != "" {
		p.language(n.Get("dsl"), d.DSL)
	}
}

// language reports a DSL version that is not supported, and warns of a newer one.
func (p *parser) language(n *yaml.Node, version string) {
	major, rest, _ := strings.Cut(version, ".")
	switch {
	case major == "0":
		p.Mistake(n.Pos, "rewrite the workflow for "+Newest+": document:, do:", "dsl %s is the old 0.8 language, want 1.0", version)
	case major != "1":
		p.Mistake(n.Pos, "dsl: '"+Newest+"'", "dsl %s is not known, want 1.0", version)
	case newer(rest):
		p.Warn(n.Pos, "", "dsl %s is newer than %s: flunq does not know what is new in it", version, Newest)
	}
}

// newer reports whether "minor.patch…" is after 0.3.
func newer(rest string) bool {
	core, _, _ := strings.Cut(rest, "+")
	core, _, _ = strings.Cut(core, "-")
	minor, patch, _ := strings.Cut(core, ".")
	m, err := strconv.Atoi(minor)
	if err != nil || m > 0 {
		return true
	}
	n, err := strconv.Atoi(patch)
	return err != nil || n > 3
}

// version checks a semantic version. YAML reads one of only two parts as a number.
func (p *parser) version(n *yaml.Node, what, example string) string {
	if n == nil {
		return ""
	}
	if n.Shape == yaml.Number {
		p.Mistake(n.Pos, fmt.Sprintf("write all three parts, in quotes: %s: '%s'", what, threeParts(fmt.Sprint(n.Data), example)),
			"document.%s: YAML reads this version as a number", what)
		return ""
	}
	s, ok := p.text(n, "document."+what)
	if ok && !versionPattern.MatchString(s) {
		p.Mistake(n.Pos, "write it as '"+threeParts(s, example)+"'", "document.%s: %s is not a semantic version", what, yaml.Quote(s))
		return ""
	}
	return s
}

// threeParts completes a version of one or two numbers.
func threeParts(s, example string) string {
	s = strings.TrimPrefix(s, "v")
	for range 2 {
		if versionPattern.MatchString(s) {
			return s
		}
		s += ".0"
	}
	if versionPattern.MatchString(s) {
		return s
	}
	return example
}

func (p *parser) name(n *yaml.Node, what string) string {
	s, ok := p.text(n, "document."+what)
	if !ok || namePattern.MatchString(s) {
		return s
	}
	mended := strings.Trim(notInName.ReplaceAllString(s, "-"), "-")
	if len(mended) > 63 {
		mended = strings.Trim(mended[:63], "-")
	}
	suggestion := "use letters, digits and - only, at most 63"
	if mended != "" {
		suggestion = "write it as " + mended
	}
	p.Mistake(n.Pos, suggestion, "document.%s: %s has more than letters, digits and - inside, or is too long", what, yaml.Quote(s))
	return ""
}

func (p *parser) evaluate(n *yaml.Node) {
	if !p.object(n, "evaluate", keys("language", "mode")) {
		return
	}
	p.loose = p.word(n.Get("mode"), "evaluate.mode", "strict", "strict", "loose") == "loose"
	p.def.Loose = p.loose
	if language := n.Get("language"); language != nil {
		if s, ok := p.text(language, "evaluate.language"); ok && s != "jq" {
			p.Mistake(language.Pos, "language: jq", "evaluate.language: %s is not known", yaml.Quote(s))
		}
	}
}

// input parses how input is validated and transformed.
func (p *parser) input(n *yaml.Node, what string, s scope, lack func(string)) (in Input) {
	if n == nil || !p.object(n, what, keys("schema", "from")) {
		return in
	}
	in.Schema = p.schema(n.Get("schema"), what+".schema", lack)
	in.From = p.template(n.Get("from"), what+".from", s)
	return in
}

// output parses how output is transformed and validated.
func (p *parser) output(n *yaml.Node, what string, s scope, lack func(string)) (out Output) {
	if n == nil || !p.object(n, what, keys("schema", "as")) {
		return out
	}
	out.As = p.template(n.Get("as"), what+".as", s)
	out.Schema = p.schema(n.Get("schema"), what+".schema", lack)
	return out
}

// export parses how $context is updated.
func (p *parser) export(n *yaml.Node, what string, s scope, lack func(string)) (out Export) {
	if n == nil || !p.object(n, what, keys("schema", "as")) {
		return out
	}
	out.As = p.template(n.Get("as"), what+".as", s)
	out.Schema = p.schema(n.Get("schema"), what+".schema", lack)
	if n.Get("schema") != nil && n.Get("as") == nil {
		p.Warn(n.Pos, "add `as: …`", "%s has a schema but no as: it checks the task's output and exports nothing", what)
	}
	return out
}

// schema compiles an inline JSON Schema.
func (p *parser) schema(n *yaml.Node, what string, lack func(string)) *schema.Schema {
	if n != nil && n.Get("document") == nil && n.Get("resource") == nil {
		if i := slices.IndexFunc(n.Fields, func(f yaml.Field) bool { return slices.Contains(schema.Keywords(), f.Key) }); i >= 0 {
			p.Mistake(n.Fields[i].Pos, "put it under `document:`", "%s: the JSON Schema begins here, without its key document", what)
			p.jsonSchema(n, what)
			return nil
		}
	}
	if n == nil || !p.object(n, what, keys("format", "document", "resource")) {
		return nil
	}
	format, _ := p.text(n.Get("format"), what+".format")
	document, resource := n.Get("document"), n.Get("resource")
	switch {
	case document == nil && resource == nil:
		if !p.misspelt(n, "document", []string{"format", "document", "resource"}) {
			p.Mistake(n.Pos, "add `document: …`", "%s has neither document nor resource", what)
		}
		return nil
	case document != nil && resource != nil:
		p.Mistake(n.Pos, "keep one", "%s has both document and resource", what)
		return nil
	case resource != nil:
		p.externalResource(resource, what+".resource", scope{}.during())
		lack("schema: resource")
		p.cannotRun(n.KeyPos("resource"), "schema.resource", instead("schema"))
		return nil
	}
	if name, _, _ := strings.Cut(format, ":"); format != "" && !strings.EqualFold(name, "json") {
		lack("schema: format " + format)
		p.cannotRun(n.KeyPos("format"), "schema.format: "+format, instead("schema"))
		return nil
	}
	return p.jsonSchema(document, what)
}

func (p *parser) jsonSchema(document *yaml.Node, what string) *schema.Schema {
	p.schemaKeys(document, what, 0)
	compiled, err := schema.Compile(document.Data)
	if err != nil {
		p.badSchema(document, what, err)
		return nil
	}
	return compiled
}

// schemaKeys warns of misspelt JSON Schema keywords, which JSON Schema itself ignores.
func (p *parser) schemaKeys(n *yaml.Node, what string, depth int) {
	if n.Shape != yaml.Object || depth > yaml.MaxDepth || p.Full() {
		return
	}
	for _, f := range n.Fields {
		switch {
		case slices.Contains([]string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}, f.Key):
			for _, property := range f.Value.Fields {
				p.schemaKeys(property.Value, what, depth+1)
			}
		case slices.Contains([]string{"allOf", "anyOf", "oneOf", "prefixItems"}, f.Key):
			for _, one := range f.Value.Items {
				p.schemaKeys(one, what, depth+1)
			}
		case slices.Contains([]string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}, f.Key):
			p.schemaKeys(f.Value, what, depth+1)
		case f.Key == "format" && f.Value.Shape == yaml.Text && !slices.Contains(schema.Formats(), f.Value.Text()):
			p.Warn(f.Value.Pos, p.guess(f.Value.Text(), schema.Formats()), "%s: flunq does not know the format %s and checks nothing", what, yaml.Quote(f.Value.Text()))
		case slices.Contains(schema.Keywords(), f.Key) || strings.HasPrefix(f.Key, "x-"):
		default:
			if meant := spelling.Word(f.Key, schema.Keywords()); meant != "" && n.Get(meant) == nil {
				p.Warn(f.Pos, "did you mean "+yaml.Quote(meant)+"?", "%s: JSON Schema has no keyword %s and ignores it", what, yaml.Quote(f.Key))
			}
		}
	}
}

// badSchema reports each invalid keyword of a JSON Schema at its position.
func (p *parser) badSchema(document *yaml.Node, what string, err error) {
	invalid, ok := errors.AsType[*schema.Invalid](err)
	if !ok {
		p.Mistake(document.Pos, "", "%s: %v", what, err)
		return
	}
	reported := map[yaml.Pos]bool{}
	for _, v := range invalid.Violations {
		n := document
		for segment := range strings.SplitSeq(strings.TrimPrefix(v.Path, "/"), "/") {
			if _, next := n.Step(strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)); next != nil {
				n = next
			}
		}
		if reported[n.Pos] {
			continue
		}
		reported[n.Pos] = true
		types := []string{"string", "number", "integer", "boolean", "object", "array", "null"}
		if strings.HasSuffix(v.Path, "/type") && n.Shape == yaml.List {
			continue // the items of the list are reported one by one
		}
		if typePath.MatchString(v.Path) && n.Shape == yaml.Text {
			p.Mistake(n.Pos, p.guess(n.Text(), types), "%s: JSON Schema has no type %s", what, yaml.Quote(n.Text()))
			continue
		}
		suggestion := ""
		switch {
		case strings.HasSuffix(v.Path, "/required") && n.Shape == yaml.Boolean:
			suggestion = "list the required properties beside `properties:`: required: [name]"
		case n.Shape == yaml.Text && strings.HasSuffix(v.Message, "want type number") || strings.HasSuffix(v.Message, "want type integer"):
			if yaml.IsNumber(n.Text()) {
				suggestion = "remove the quotes"
			}
		case n.Shape == yaml.Text && strings.HasSuffix(v.Message, "want type boolean or object"):
			suggestion = "write it as {type: " + yaml.Short(n.Text()) + "}"
		case n.Shape == yaml.Text && strings.HasSuffix(v.Message, "want type array"):
			suggestion = "write it as [" + yaml.Short(n.Text()) + "]"
		}
		p.Mistake(n.Pos, suggestion, "%s: %s", what, v)
	}
}

// timeout parses a timeout, or resolves a reference to one.
func (p *parser) timeout(n *yaml.Node, s scope) *expr.Value {
	switch {
	case n == nil:
		return nil
	case n.Shape == yaml.Text:
		named, ok := p.shared.timeouts.find(n.Text())
		if d, err := ParseDuration(n.Text()); !ok && err == nil {
			p.Mistake(n.Pos, "write it as {after: "+d.String()+"}", "timeout: want a map, or the name of a timeout; %s is a duration", yaml.Quote(n.Text()))
			return nil
		}
		if !ok {
			p.Mistake(n.Pos, reference(n.Text(), "use.timeouts", p.shared.timeouts.names), "unknown timeout %s", yaml.Quote(n.Text()))
			return nil
		}
		return p.timeoutOf(named, s)
	default:
		return p.timeoutOf(n, s)
	}
}

func (p *parser) timeoutOf(n *yaml.Node, s scope) *expr.Value {
	if !p.object(n, "timeout", keys("after").need("after")) {
		return nil
	}
	return p.duration(n.Get("after"), "timeout.after", s)
}

// reference returns the suggestion for a name that a section of use does not define.
func reference(name, section string, names []string) string {
	if len(names) == 0 {
		return "define it in " + section
	}
	return didYouMean(name, names)
}
