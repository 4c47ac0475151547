package openapi

import (
	"bytes"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/content"
	"flunq.io/flunq/engine/executor/endpoint"
	"flunq.io/flunq/engine/expr/canonical"
)

// document is an OpenAPI or Swagger document and its URI.
type document struct {
	root map[string]any
	at   *url.URL
}

// longestError is the number of bytes shown of a parser's error.
const longestError = 512

// readDocument parses JSON or YAML.
func readDocument(body []byte, at *url.URL) (*document, error) {
	body = content.WithoutMark(body)
	decode := content.DecodeYAML
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		decode = content.DecodeJSON
	}
	data, err := decode(body)
	if err != nil {
		return nil, call.Configuration("OpenAPI document: %s %s", endpoint.Show(at), excerpt.Of(err.Error(), longestError))
	}
	root, _ := data.(map[string]any)
	doc := &document{root: root, at: at}
	if !doc.swagger() && !strings.HasPrefix(canonical.Text(root["openapi"])+".", "3.") { // YAML reads an unquoted 3.0 as the number 3
		return nil, call.Configuration("OpenAPI document: %s has neither openapi: 3.x nor swagger: 2.0", endpoint.Show(at))
	}
	return doc, nil
}

// swagger reports whether the document is of version 2.
func (d *document) swagger() bool {
	version, _ := canonical.Scalar(d.root["swagger"])
	return version == "2.0" || version == "2"
}

// methods returns the methods that a path item can have, as spelled in documents.
func methods() []string {
	return []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}
}

// entry is an operation as the document defines it.
type entry struct {
	method, path string
	item, op     map[string]any
}

// find returns the operation with an id. The document must have only one.
func (d *document) find(id string) (*entry, error) {
	var found *entry
	var ids []string
	paths := object(d.root["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, err := d.resolve(paths[path])
		if err != nil && found == nil {
			return nil, err
		}
		for _, method := range methods() {
			op := object(item[method])
			name, _ := op["operationId"].(string)
			switch name {
			case "":
			case id:
				if found != nil {
					return nil, call.Configuration("operationId: %s has two operations %q: %s %s and %s %s", endpoint.Show(d.at), id,
						strings.ToUpper(found.method), found.path, strings.ToUpper(method), path)
				}
				found = &entry{method: method, path: path, item: item, op: op}
			default:
				ids = append(ids, name)
			}
		}
	}
	if found != nil {
		return found, nil
	}
	return nil, call.Configuration("operationId: %s has no operation %q%s", endpoint.Show(d.at), id, didYouMean(id, ids))
}

// operation returns the operation with an id in the form common to both versions.
func (d *document) operation(id string) (*operation, error) {
	e, err := d.find(id)
	if err != nil {
		return nil, err
	}
	if d.swagger() {
		return d.operation2(id, e)
	}
	return d.operation3(id, e)
}

// parameters returns the parameters of the path and of the operation, which override those of the
// path.
func (d *document) parameters(e *entry) ([]map[string]any, error) {
	var out []map[string]any
	for _, list := range []any{e.item["parameters"], e.op["parameters"]} {
		items, _ := list.([]any)
		for _, item := range items {
			parameter, err := d.resolve(item)
			if err != nil {
				return nil, err
			}
			same := func(other map[string]any) bool {
				return other["name"] == parameter["name"] && other["in"] == parameter["in"]
			}
			if i := slices.IndexFunc(out, same); i >= 0 {
				out[i] = parameter
				continue
			}
			out = append(out, parameter)
		}
	}
	return out, nil
}

// resolve returns v as an object, following its reference.
func (d *document) resolve(v any) (map[string]any, error) {
	const chain = 32 // a longer chain is a cycle
	for range chain {
		o := object(v)
		ref, ok := o["$ref"].(string)
		if !ok {
			return o, nil
		}
		found, err := d.lookup(ref)
		if err != nil {
			return nil, err
		}
		v = found
	}
	return nil, call.Configuration("OpenAPI document: %s has circular references", endpoint.Show(d.at))
}

// lookup returns what a reference into the same document points to.
func (d *document) lookup(ref string) (any, error) {
	pointer, inside := strings.CutPrefix(ref, "#")
	if !inside {
		return nil, call.Configuration("OpenAPI document: %s refers to %q, but other documents cannot be read yet",
			endpoint.Show(d.at), ref)
	}
	var v any = d.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if unescaped, err := url.PathUnescape(part); err == nil {
			part = unescaped
		}
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		next, ok := member(v, part)
		if !ok {
			return nil, call.Configuration("OpenAPI document: %s refers to %q, which it does not have", endpoint.Show(d.at), ref)
		}
		v = next
	}
	return v, nil
}

// member is one step of a JSON pointer.
func member(v any, name string) (any, bool) {
	if list, ok := v.([]any); ok {
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(list) {
			return nil, false
		}
		return list[i], true
	}
	found, ok := object(v)[name]
	return found, ok
}

// object returns v if it is an object, otherwise an empty one: missing and malformed members are
// treated alike.
func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// stringsOf returns the strings of a list.
func stringsOf(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
