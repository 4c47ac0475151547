package openapi

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/content"
	"flunq.io/flunq/engine/executor/endpoint"
	"flunq.io/flunq/engine/expr/canonical"
)

// operation is a callable operation, in the terms of OpenAPI 3 even for Swagger 2.
type operation struct {
	id           string
	method, path string
	server       string // an absolute URI
	parameters   []parameter
	payload      *payload // nil if the operation takes no body
	accept       string   // media types, in order of preference
}

// parameter is a value in the request outside the body.
type parameter struct {
	name     string
	in       string // "path", "query", "header", "cookie", "form"
	required bool
	style    string // "simple", "form", "spaceDelimited", "pipeDelimited", "tabDelimited", "deepObject"
	explode  bool
	reserved bool // reserved characters are not encoded
	json     bool // the value is sent as JSON
}

// payload is the body of an operation.
type payload struct {
	name     string // its name in Swagger 2, else "body"
	required bool
	own      bool     // its schema has a property with that name
	media    []string // content types that the operation accepts
}

// operation3 converts an operation of OpenAPI 3.
func (d *document) operation3(id string, e *entry) (*operation, error) {
	op := &operation{id: id, method: e.method, path: e.path}
	var err error
	if op.server, err = d.server3(e); err != nil {
		return nil, err
	}
	declared, err := d.parameters(e)
	if err != nil {
		return nil, err
	}
	for _, p := range declared {
		op.parameters = append(op.parameters, parameter3(p))
	}
	if e.op["requestBody"] != nil {
		if op.payload, err = d.payload3(e.op["requestBody"]); err != nil {
			return nil, err
		}
	}
	var media []string
	responses := object(e.op["responses"])
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		response, err := d.resolve(responses[status])
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(status, "2") || status == "default" {
			media = append(media, slices.Sorted(maps.Keys(object(response["content"])))...)
		}
	}
	op.accept = acceptable(media)
	return op, nil
}

func parameter3(p map[string]any) parameter {
	out := parameter{required: p["required"] == true, reserved: p["allowReserved"] == true, json: p["content"] != nil}
	out.name, _ = p["name"].(string)
	out.in, _ = p["in"].(string)
	if out.in == "header" && slices.Contains([]string{"Accept", "Authorization", "Content-Type"}, http.CanonicalHeaderKey(out.name)) {
		out.required = false // OpenAPI 3 ignores the definition: the call sets these headers
	}
	out.style, _ = p["style"].(string)
	if out.style == "" {
		out.style = "form"
		if out.in == "path" || out.in == "header" {
			out.style = "simple"
		}
	}
	explode, written := p["explode"].(bool)
	out.explode = explode || !written && out.style == "form"
	return out
}

func (d *document) payload3(v any) (*payload, error) {
	body, err := d.resolve(v)
	if err != nil {
		return nil, err
	}
	types := object(body["content"])
	out := &payload{name: "body", required: body["required"] == true, media: slices.Sorted(maps.Keys(types))}
	for _, media := range out.media {
		schema, err := d.resolve(object(types[media])["schema"])
		if err != nil {
			return nil, err
		}
		if _, own := object(schema["properties"])["body"]; own {
			out.own = true
		}
	}
	return out, nil
}

// server3 returns the first server of the operation, of its path or of the document.
func (d *document) server3(e *entry) (string, error) {
	server := map[string]any{}
	for _, of := range []map[string]any{e.op, e.item, d.root} {
		if list, _ := of["servers"].([]any); len(list) > 0 {
			server = object(list[0])
			break
		}
	}
	raw, _ := server["url"].(string)
	variables := object(server["variables"])
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if value, ok := canonical.Scalar(object(variables[name])["default"]); ok {
			raw = strings.ReplaceAll(raw, "{"+name+"}", value)
		}
	}
	if left := placeholders(raw); len(left) > 0 {
		return "", call.Configuration("OpenAPI document: its server has the variable {%s} without a default", left[0])
	}
	return d.absolute(cmp.Or(raw, "/"))
}

// absolute resolves a server's URI against the document's.
func (d *document) absolute(raw string) (string, error) {
	const where = "OpenAPI document: its server"
	relative, err := url.Parse(raw)
	if err != nil {
		return "", call.Configuration("%s is not a URI", where)
	}
	uri, err := endpoint.Check(where, d.at.ResolveReference(relative))
	if err != nil {
		return "", err
	}
	uri.RawQuery = ""
	return strings.TrimRight(uri.String(), "/"), nil
}

// acceptable returns the Accept header for an operation's responses: JSON first, since it becomes
// data.
func acceptable(media []string) string {
	slices.SortStableFunc(media, func(a, b string) int { return rank(a) - rank(b) })
	return strings.Join(slices.Compact(media), ", ")
}

// rank orders media types by how well their content can be converted to data.
func rank(media string) int {
	switch content.FormatOf(content.MediaType(media)) {
	case content.JSON:
		return 0
	case content.YAML:
		return 1
	case content.Text:
		return 2
	default:
		return 3
	}
}
