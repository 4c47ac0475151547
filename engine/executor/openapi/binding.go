package openapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/endpoint"
	httpcall "flunq.io/flunq/engine/executor/http"
)

// binding assigns the values from a workflow to the places where an operation expects them.
type binding struct {
	op    *operation
	given map[string]any
	used  map[string]bool

	path    map[string]string
	query   []string
	form    []string
	cookies []string
	header  http.Header
	body    []byte
}

// bind assigns all values, or reports everything that is wrong with them.
func (b *binding) bind() error {
	b.path = map[string]string{}
	var missing []string
	hasForm := false
	for _, p := range b.parameters() {
		hasForm = hasForm || p.in == "form"
		value := b.given[p.name]
		b.used[p.name] = true
		if value == nil {
			if p.required || p.in == "path" {
				text := fmt.Sprintf("%q (in %s)", p.name, p.in)
				if _, given := b.given[p.name]; given {
					text += ", which is null"
				}
				missing = append(missing, text)
			}
			continue
		}
		if err := b.place(p, value); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return call.Validation("parameters: the operation %s needs %s", b.op.id, strings.Join(missing, ", "))
	}
	if len(b.cookies) > 0 {
		if err := httpcall.SetHeader(b.header, "Cookie", strings.Join(b.cookies, "; ")); err != nil {
			return err
		}
	}
	if hasForm {
		b.body = []byte(strings.Join(b.form, "&"))
		b.header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return b.fillBody()
}

// parameters returns the operation's parameters, including those in its path that the document
// does not declare.
func (b *binding) parameters() []parameter {
	all := slices.Clone(b.op.parameters)
	for _, name := range placeholders(b.op.path) {
		declared := func(p parameter) bool { return p.in == "path" && p.name == name }
		if !slices.ContainsFunc(all, declared) {
			all = append(all, parameter{name: name, in: "path", required: true, style: "simple"})
		}
	}
	return all
}

// placeholders returns the names in braces in a path.
func placeholders(path string) []string {
	var names []string
	for {
		_, after, open := strings.Cut(path, "{")
		name, rest, closed := strings.Cut(after, "}")
		if !open || !closed {
			return names
		}
		names = append(names, name)
		path = rest
	}
}

// place puts one value where it belongs.
func (b *binding) place(p parameter, value any) error {
	switch p.in {
	case "path":
		filled, err := p.single(value, endpoint.Escape)
		if err != nil {
			return err
		}
		if filled == "" {
			return call.Validation("parameters: %q is empty, which a path cannot be", p.name)
		}
		b.path[p.name] = filled
	case "query":
		b.query = append(b.query, p.pairs(value)...)
	case "form":
		b.form = append(b.form, p.pairs(value)...)
	case "cookie":
		b.cookies = append(b.cookies, p.pairs(value)...)
	case "header":
		filled, err := p.single(value, verbatim)
		if err != nil {
			return err
		}
		return httpcall.SetHeader(b.header, p.name, filled)
	default:
		return call.Configuration("OpenAPI document: the parameter %q is in %q, want path, query, header or cookie", p.name, p.in)
	}
	return nil
}

// uri returns the operation's URI with its path filled in.
func (b *binding) uri() (*url.URL, error) {
	filled := b.op.path
	for _, name := range placeholders(b.op.path) {
		filled = strings.ReplaceAll(filled, "{"+name+"}", b.path[name])
	}
	if endpoint.DotSegments(filled) > endpoint.DotSegments(b.op.path) {
		return nil, call.Validation("parameters: a value of . or .. would lead to another path")
	}
	uri, err := endpoint.Parse("OpenAPI document: the path of "+b.op.id, b.op.server+"/"+strings.TrimLeft(filled, "/"))
	if err != nil {
		return nil, err
	}
	return endpoint.AppendQuery(uri, strings.Join(b.query, "&")), nil
}
