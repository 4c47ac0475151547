package dsl

import (
	"errors"
	"slices"
	"strings"

	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/schema"
	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/yaml"
)

// dataFlow parses input, output and export: how data is validated and transformed on its
// way into a task or a workflow, out of it, and into $context. The functions named
// unsupported record a construct that flunq cannot run.
type dataFlow struct{ *connections }

// input parses how input is validated and transformed.
func (p *dataFlow) input(n *yaml.Node, s scope, unsupported func(string)) (in Input) {
	if n == nil || !p.object(n, "input", keys("schema", "from")) {
		return in
	}
	in.Schema = p.schema(n.Get("schema"), "input.schema", unsupported)
	in.From = p.template(n.Get("from"), "input.from", s)
	return in
}

// output parses how output is transformed and validated.
func (p *dataFlow) output(n *yaml.Node, what string, s scope, unsupported func(string)) (out Output) {
	if n == nil || !p.object(n, what, keys("schema", "as")) {
		return out
	}
	out.As = p.template(n.Get("as"), what+".as", s)
	out.Schema = p.schema(n.Get("schema"), what+".schema", unsupported)
	return out
}

// export parses how $context is updated.
func (p *dataFlow) export(n *yaml.Node, what string, s scope, unsupported func(string)) Export {
	out := p.output(n, what, s, unsupported)
	if n.Get("schema") != nil && n.Get("as") == nil {
		p.Warn(ruleSchema, n.Pos, "add `as: …`", "%s has a schema but no as: it checks the task's output and exports nothing", what)
	}
	return Export(out)
}

// schema compiles an inline JSON Schema.
func (p *dataFlow) schema(n *yaml.Node, what string, unsupported func(string)) *schema.Schema {
	if n != nil && n.Get("document") == nil && n.Get("resource") == nil {
		if i := slices.IndexFunc(n.Fields, func(f yaml.Field) bool { return slices.Contains(schema.Keywords(), f.Key) }); i >= 0 {
			p.Mistake(n.Fields[i].Pos, "put it under `document:`", "%s: the JSON Schema begins here, but belongs under document", what)
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
		if !misspelt(n, "document", []string{"format", "document", "resource"}) {
			p.Mistake(n.Pos, "add `document: …`", "%s has neither document nor resource", what)
		}
		return nil
	case document != nil && resource != nil:
		p.Mistake(n.Pos, "keep one", "%s has both document and resource", what)
		return nil
	case resource != nil:
		p.externalResource(resource, what+".resource", scope{}.during())
		unsupported("schema: resource")
		p.cannotRun(n.KeyPos("resource"), "schema.resource", instead("schema"))
		return nil
	}
	if name, _, _ := strings.Cut(format, ":"); format != "" && !strings.EqualFold(name, "json") {
		unsupported("schema: format " + format)
		p.cannotRun(n.KeyPos("format"), "schema.format: "+format, instead("schema"))
		return nil
	}
	return p.jsonSchema(document, what)
}

func (p *dataFlow) jsonSchema(document *yaml.Node, what string) *schema.Schema {
	p.schemaKeys(document, what, 0)
	compiled, err := schema.Compile(document.Data)
	if err != nil {
		p.badSchema(document, what, err)
		return nil
	}
	return compiled
}

// schemaKeys warns about misspelt JSON Schema keywords, which JSON Schema itself ignores.
func (p *dataFlow) schemaKeys(n *yaml.Node, what string, depth int) {
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
			p.Warn(ruleSchema, f.Value.Pos, p.guess(f.Value.Text(), schema.Formats()), "%s: flunq does not know the format %s and checks nothing", what, yaml.Quote(f.Value.Text()))
		case slices.Contains(schema.Keywords(), f.Key) || strings.HasPrefix(f.Key, "x-"):
		default:
			if meant := spelling.Word(f.Key, schema.Keywords()); meant != "" && n.Get(meant) == nil {
				p.Warn(ruleSchema, f.Pos, question(meant), "%s: JSON Schema has no keyword %s and ignores it", what, yaml.Quote(f.Key))
			}
		}
	}
}

var typePath = lazyregexp.New(`/type(/\d+)?$`)

// badSchema reports each invalid keyword of a JSON Schema at its position.
func (p *dataFlow) badSchema(document *yaml.Node, what string, err error) {
	invalid, ok := errors.AsType[*schema.Invalid](err)
	if !ok {
		p.Mistake(document.Pos, "", "%s: %v", what, err)
		return
	}
	reported := map[yaml.Pos]bool{}
	for _, v := range invalid.Violations {
		n := document
		for segment := range yaml.Segments(v.Path) {
			if _, next := n.Step(segment); next != nil {
				n = next
			}
		}
		if reported[n.Pos] {
			continue
		}
		reported[n.Pos] = true
		types := []string{"string", "number", "integer", "boolean", "object", "array", "null"}
		if strings.HasSuffix(v.Path, "/type") && n.Shape == yaml.List {
			continue // the list's items are reported one by one
		}
		if typePath().MatchString(v.Path) && n.Shape == yaml.Text {
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
