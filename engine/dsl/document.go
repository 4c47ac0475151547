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
func (p *parser) document(n *node) {
	if n.shape != object {
		p.wrong(n, "the workflow", "a map with document: and do:")
		return
	}
	if states := n.get("states"); states != nil && n.get("do") == nil {
		p.mistake(n.keyOf("states"), "rewrite the workflow for "+Newest+": document:, do:", "states belong to the old 0.8 language, want 1.0")
		return
	}
	p.moveUp(n)
	p.topLevel(n)
	p.def.Raw = n.data
	if m := n.get("evaluate"); m != nil {
		p.evaluate(m)
	}
	if m := n.get("document"); m != nil {
		p.header(m)
	}
	if m := n.get("use"); m != nil {
		p.use(m)
	}
	p.def.Input = p.input(n.get("input"), "input", workflowInput(), p.noteUnsupported("/input"))
	p.timed = n.get("timeout") != nil
	p.def.Do = p.tasks(n.get("do"), "do", "/do", scope{})
	p.def.Timeout = p.timeout(n.get("timeout"), workflowOutput())
	p.def.Output = p.output(n.get("output"), "output", workflowOutput(), p.noteUnsupported("/output"))
	if m := n.get("schedule"); m != nil {
		p.cannotRun(n.keyOf("schedule"), "schedule", instead("schedule"))
		p.schedule(m)
	}
	p.checkJumps()
}

// moveUp moves the top-level sections out of `document:` if they are nested there by
// mistake.
func (p *parser) moveUp(n *node) {
	header := n.get("document")
	for _, name := range []string{"do", "input", "output", "use", "timeout"} {
		if m := header.get(name); m != nil && n.get(name) == nil {
			p.mistake(header.keyOf(name), "indent it as `document:`", "%s stands inside of document", name)
			n.fields = append(slices.Clip(n.fields), field{name, header.keyOf(name), m})
			header.fields = slices.DeleteFunc(slices.Clone(header.fields), func(f field) bool { return f.key == name })
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
func (p *parser) topLevel(n *node) {
	m := keys("document", "input", "use", "do", "timeout", "output", "schedule", "evaluate").need("document", "do")
	free := absent(n, m.known)
	fitting := *n
	fitting.fields = nil
	for i, f := range n.fields {
		switch {
		case slices.Contains(m.known, f.key):
			fitting.fields = append(fitting.fields, f)
		case closest(f.key, free) != "":
			p.mistake(f.pos, p.guessKey(f.key, free, m.known), "unknown key %s in the workflow", quote(f.key))
			fitting.fields = append(fitting.fields, field{closest(f.key, free), f.pos, f.value})
			n.fields[i].key = closest(f.key, free) // so that mistakes in its value are reported too
		case slices.Contains([]string{"id", "name", "version", "specVersion", "namespace", "dsl"}, f.key):
			p.mistake(f.pos, "put it under `document:`", "unknown key %s in the workflow", quote(f.key))
		default:
			p.warn(f.pos, "allowed keys: "+strings.Join(m.known, ", "), "%s is not a known key of the workflow: it is ignored", quote(f.key))
		}
	}
	p.object(&fitting, "the workflow", m)
}

// header parses "document".
func (p *parser) header(n *node) {
	if !p.object(n, "document", keys("dsl", "namespace", "name", "version", "title", "summary", "tags", "metadata").
		need("dsl", "namespace", "name", "version")) {
		return
	}
	d := &p.def.Document
	d.DSL = p.version(n.get("dsl"), "dsl", Newest)
	d.Namespace = p.name(n.get("namespace"), "namespace")
	d.Name = p.name(n.get("name"), "name")
	d.Version = p.version(n.get("version"), "version", "0.1.0")
	d.Title, _ = p.text(n.get("title"), "title")
	d.Summary, _ = p.text(n.get("summary"), "summary")
	p.mapOf(n.get("tags"), "tags")
	p.mapOf(n.get("metadata"), "metadata")
	if d.DSL != "" {
		p.language(n.get("dsl"), d.DSL)
	}
}

// language reports a DSL version that is not supported, and warns of a newer one.
func (p *parser) language(n *node, version string) {
	major, rest, _ := strings.Cut(version, ".")
	switch {
	case major == "0":
		p.mistake(n.Pos, "rewrite the workflow for "+Newest+": document:, do:", "dsl %s is the old 0.8 language, want 1.0", version)
	case major != "1":
		p.mistake(n.Pos, "dsl: '"+Newest+"'", "dsl %s is not known, want 1.0", version)
	case newer(rest):
		p.warn(n.Pos, "", "dsl %s is newer than %s: flunq does not know what is new in it", version, Newest)
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
func (p *parser) version(n *node, what, example string) string {
	if n == nil {
		return ""
	}
	if n.shape == number {
		p.mistake(n.Pos, fmt.Sprintf("write all three parts, in quotes: %s: '%s'", what, threeParts(fmt.Sprint(n.data), example)),
			"document.%s: YAML reads this version as a number", what)
		return ""
	}
	s, ok := p.text(n, "document."+what)
	if ok && !versionPattern.MatchString(s) {
		p.mistake(n.Pos, "write it as '"+threeParts(s, example)+"'", "document.%s: %s is not a semantic version", what, quote(s))
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

func (p *parser) name(n *node, what string) string {
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
	p.mistake(n.Pos, suggestion, "document.%s: %s has more than letters, digits and - inside, or is too long", what, quote(s))
	return ""
}

func (p *parser) evaluate(n *node) {
	if !p.object(n, "evaluate", keys("language", "mode")) {
		return
	}
	p.loose = p.word(n.get("mode"), "evaluate.mode", "strict", "strict", "loose") == "loose"
	p.def.Loose = p.loose
	if language := n.get("language"); language != nil {
		if s, ok := p.text(language, "evaluate.language"); ok && s != "jq" {
			p.mistake(language.Pos, "language: jq", "evaluate.language: %s is not known", quote(s))
		}
	}
}

// input parses how input is validated and transformed.
func (p *parser) input(n *node, what string, s scope, lack func(string)) (in Input) {
	if n == nil || !p.object(n, what, keys("schema", "from")) {
		return in
	}
	in.Schema = p.schema(n.get("schema"), what+".schema", lack)
	in.From = p.template(n.get("from"), what+".from", s)
	return in
}

// output parses how output is transformed and validated.
func (p *parser) output(n *node, what string, s scope, lack func(string)) (out Output) {
	if n == nil || !p.object(n, what, keys("schema", "as")) {
		return out
	}
	out.As = p.template(n.get("as"), what+".as", s)
	out.Schema = p.schema(n.get("schema"), what+".schema", lack)
	return out
}

// export parses how $context is updated.
func (p *parser) export(n *node, what string, s scope, lack func(string)) (out Export) {
	if n == nil || !p.object(n, what, keys("schema", "as")) {
		return out
	}
	out.As = p.template(n.get("as"), what+".as", s)
	out.Schema = p.schema(n.get("schema"), what+".schema", lack)
	if n.get("schema") != nil && n.get("as") == nil {
		p.warn(n.Pos, "add `as: …`", "%s has a schema but no as: it checks the task's output and exports nothing", what)
	}
	return out
}

// schema compiles an inline JSON Schema.
func (p *parser) schema(n *node, what string, lack func(string)) *schema.Schema {
	if n != nil && n.get("document") == nil && n.get("resource") == nil {
		if i := slices.IndexFunc(n.fields, func(f field) bool { return slices.Contains(schema.Keywords(), f.key) }); i >= 0 {
			p.mistake(n.fields[i].pos, "put it under `document:`", "%s: the JSON Schema begins here, without its key document", what)
			p.jsonSchema(n, what)
			return nil
		}
	}
	if n == nil || !p.object(n, what, keys("format", "document", "resource")) {
		return nil
	}
	format, _ := p.text(n.get("format"), what+".format")
	document, resource := n.get("document"), n.get("resource")
	switch {
	case document == nil && resource == nil:
		if !p.misspelt(n, "document", []string{"format", "document", "resource"}) {
			p.mistake(n.Pos, "add `document: …`", "%s has neither document nor resource", what)
		}
		return nil
	case document != nil && resource != nil:
		p.mistake(n.Pos, "keep one", "%s has both document and resource", what)
		return nil
	case resource != nil:
		p.externalResource(resource, what+".resource", scope{}.during())
		lack("schema: resource")
		p.cannotRun(n.keyOf("resource"), "schema.resource", instead("schema"))
		return nil
	}
	if name, _, _ := strings.Cut(format, ":"); format != "" && !strings.EqualFold(name, "json") {
		lack("schema: format " + format)
		p.cannotRun(n.keyOf("format"), "schema.format: "+format, instead("schema"))
		return nil
	}
	return p.jsonSchema(document, what)
}

func (p *parser) jsonSchema(document *node, what string) *schema.Schema {
	p.schemaKeys(document, what, 0)
	compiled, err := schema.Compile(document.data)
	if err != nil {
		p.badSchema(document, what, err)
		return nil
	}
	return compiled
}

// schemaKeys warns of misspelt JSON Schema keywords, which JSON Schema itself ignores.
func (p *parser) schemaKeys(n *node, what string, depth int) {
	if n.shape != object || depth > MaxDepth || p.full() {
		return
	}
	for _, f := range n.fields {
		switch {
		case slices.Contains([]string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}, f.key):
			for _, property := range f.value.fields {
				p.schemaKeys(property.value, what, depth+1)
			}
		case slices.Contains([]string{"allOf", "anyOf", "oneOf", "prefixItems"}, f.key):
			for _, one := range f.value.items {
				p.schemaKeys(one, what, depth+1)
			}
		case slices.Contains([]string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}, f.key):
			p.schemaKeys(f.value, what, depth+1)
		case f.key == "format" && f.value.shape == text && !slices.Contains(schema.Formats(), f.value.text()):
			p.warn(f.value.Pos, p.guess(f.value.text(), schema.Formats()), "%s: flunq does not know the format %s and checks nothing", what, quote(f.value.text()))
		case slices.Contains(schema.Keywords(), f.key) || strings.HasPrefix(f.key, "x-"):
		default:
			if meant := spelling.Word(f.key, schema.Keywords()); meant != "" && n.get(meant) == nil {
				p.warn(f.pos, "did you mean "+quote(meant)+"?", "%s: JSON Schema has no keyword %s and ignores it", what, quote(f.key))
			}
		}
	}
}

// badSchema reports each invalid keyword of a JSON Schema at its position.
func (p *parser) badSchema(document *node, what string, err error) {
	invalid, ok := errors.AsType[*schema.Invalid](err)
	if !ok {
		p.mistake(document.Pos, "", "%s: %v", what, err)
		return
	}
	reported := map[Pos]bool{}
	for _, v := range invalid.Violations {
		n := document
		for segment := range strings.SplitSeq(strings.TrimPrefix(v.Path, "/"), "/") {
			if _, next := n.step(strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)); next != nil {
				n = next
			}
		}
		if reported[n.Pos] {
			continue
		}
		reported[n.Pos] = true
		types := []string{"string", "number", "integer", "boolean", "object", "array", "null"}
		if strings.HasSuffix(v.Path, "/type") && n.shape == list {
			continue // the items of the list are reported one by one
		}
		if typePath.MatchString(v.Path) && n.shape == text {
			p.mistake(n.Pos, p.guess(n.text(), types), "%s: JSON Schema has no type %s", what, quote(n.text()))
			continue
		}
		suggestion := ""
		switch {
		case strings.HasSuffix(v.Path, "/required") && n.shape == boolean:
			suggestion = "list the required properties beside `properties:`: required: [name]"
		case n.shape == text && strings.HasSuffix(v.Message, "want type number") || strings.HasSuffix(v.Message, "want type integer"):
			if wholePattern.MatchString(n.text()) || floatPattern.MatchString(n.text()) {
				suggestion = "remove the quotes"
			}
		case n.shape == text && strings.HasSuffix(v.Message, "want type boolean or object"):
			suggestion = "write it as {type: " + short(n.text()) + "}"
		case n.shape == text && strings.HasSuffix(v.Message, "want type array"):
			suggestion = "write it as [" + short(n.text()) + "]"
		}
		p.mistake(n.Pos, suggestion, "%s: %s", what, v)
	}
}

// timeout parses a timeout, or resolves a reference to one.
func (p *parser) timeout(n *node, s scope) *expr.Value {
	switch {
	case n == nil:
		return nil
	case n.shape == text:
		named, ok := p.shared.timeouts.find(n.text())
		if d, err := ParseDuration(n.text()); !ok && err == nil {
			p.mistake(n.Pos, "write it as {after: "+d.String()+"}", "timeout: want a map, or the name of a timeout; %s is a duration", quote(n.text()))
			return nil
		}
		if !ok {
			p.mistake(n.Pos, reference(n.text(), "use.timeouts", p.shared.timeouts.names), "unknown timeout %s", quote(n.text()))
			return nil
		}
		return p.timeoutOf(named, s)
	default:
		return p.timeoutOf(n, s)
	}
}

func (p *parser) timeoutOf(n *node, s scope) *expr.Value {
	if !p.object(n, "timeout", keys("after").need("after")) {
		return nil
	}
	return p.duration(n.get("after"), "timeout.after", s)
}

// reference returns the suggestion for a name that a section of use does not define.
func reference(name, section string, names []string) string {
	if len(names) == 0 {
		return "define it in " + section
	}
	return didYouMean(name, names)
}
