package openapi

import (
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/endpoint"
	"flunq.io/flunq/engine/expr/canonical"
)

// verbatim is the encoding of values that need none.
func verbatim(text, _ string) string { return text }

// single encodes a value as one string in style simple: 1,2,3 and k,v or k=v.
func (p parameter) single(value any, encode func(text, keep string) string) (string, error) {
	if p.json {
		return encode(string(canonical.Encode(value)), ""), nil
	}
	if p.style == "label" || p.style == "matrix" {
		return "", call.Configuration("OpenAPI document: the style %s of the parameter %q cannot be used yet", p.style, p.name)
	}
	separator := p.separator()
	if p.style != "simple" && separator != "," {
		separator = encode(separator, "")
	}
	var parts []string
	for _, part := range p.flat(value) {
		joint := separator
		if p.explode {
			joint = "="
		}
		if part.named {
			parts = append(parts, encode(part.name, "")+joint+encode(part.value, ""))
			continue
		}
		parts = append(parts, encode(part.value, ""))
	}
	return strings.Join(parts, separator), nil
}

// pairs encodes a value as name=value pairs.
func (p parameter) pairs(value any) []string {
	keep := ""
	if p.reserved {
		keep = ":/?#[]@!$'()*,;" // except those that end a pair
	}
	pair := func(name, value string) string {
		return endpoint.Escape(name, "[]") + "=" + endpoint.Escape(value, keep)
	}
	parts := p.flat(value)
	_, isObject := value.(map[string]any)
	switch {
	case p.json:
		return []string{pair(p.name, string(canonical.Encode(value)))}
	case p.style == "deepObject" && isObject:
		return deep(p.name, value, pair)
	case p.explode && p.style != "deepObject":
		var out []string
		for _, part := range parts {
			name := p.name
			if part.named {
				name = part.name
			}
			out = append(out, pair(name, part.value))
		}
		return out
	}
	joint := p.separator()
	if joint != "," {
		joint = endpoint.Escape(joint, "")
	}
	var joined []string
	for _, part := range parts {
		if part.named {
			joined = append(joined, endpoint.Escape(part.name, keep))
		}
		joined = append(joined, endpoint.Escape(part.value, keep))
	}
	return []string{endpoint.Escape(p.name, "[]") + "=" + strings.Join(joined, joint)}
}

// separator returns the separator between the items of a value in one string.
func (p parameter) separator() string {
	switch p.style {
	case "spaceDelimited":
		return " "
	case "pipeDelimited":
		return "|"
	case "tabDelimited":
		return "\t"
	default:
		return ","
	}
}

// part is a scalar of a value: an item, or a member with its name.
type part struct {
	name, value string
	named       bool
}

// flat splits a value into parts. Deeper nesting, which no style can express, becomes JSON.
func (p parameter) flat(value any) []part {
	switch value := value.(type) {
	case []any:
		var parts []part
		for _, item := range value {
			if item != nil {
				parts = append(parts, part{value: canonical.Text(item)})
			}
		}
		return parts
	case map[string]any:
		var parts []part
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if value[name] != nil {
				parts = append(parts, part{name: name, value: canonical.Text(value[name]), named: true})
			}
		}
		return parts
	default:
		return []part{{value: canonical.Text(value)}}
	}
}

// deep encodes an object as name[key]=value; lists repeat their name.
func deep(name string, value any, pair func(name, value string) string) []string {
	var out []string
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			out = append(out, deep(name+"["+key+"]", value[key], pair)...)
		}
	case []any:
		for _, item := range value {
			out = append(out, deep(name, item, pair)...)
		}
	default:
		out = append(out, pair(name, canonical.Text(value)))
	}
	return out
}
