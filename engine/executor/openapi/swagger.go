package openapi

import (
	"cmp"
	"slices"
	"strings"

	"flunq.io/flunq/engine/executor/call"
)

// operation2 converts an operation of Swagger 2.
func (d *document) operation2(id string, e *entry) (*operation, error) {
	op := &operation{id: id, method: e.method, path: e.path}
	op.accept = acceptable(d.inherited(e, "produces"))
	var err error
	if op.server, err = d.server2(e); err != nil {
		return nil, err
	}
	declared, err := d.parameters(e)
	if err != nil {
		return nil, err
	}
	consumes := d.inherited(e, "consumes")
	for _, p := range declared {
		switch p["in"] {
		case "body":
			if op.payload, err = d.payload2(p, consumes); err != nil {
				return nil, err
			}
		case "formData":
			if err := checkForm(p, consumes); err != nil {
				return nil, err
			}
			field := parameter2(p)
			field.in = "form"
			op.parameters = append(op.parameters, field)
		default:
			op.parameters = append(op.parameters, parameter2(p))
		}
	}
	return op, nil
}

// inherited returns a list of the operation, or of the document if the operation has none.
func (d *document) inherited(e *entry, name string) []string {
	if _, own := e.op[name]; own {
		return stringsOf(e.op[name])
	}
	return stringsOf(d.root[name])
}

func (d *document) payload2(p map[string]any, consumes []string) (*payload, error) {
	out := &payload{name: "body", required: p["required"] == true, media: consumes}
	if name, ok := p["name"].(string); ok && name != "" {
		out.name = name
	}
	if len(out.media) == 0 {
		out.media = []string{"application/json"}
	}
	schema, err := d.resolve(p["schema"])
	if err != nil {
		return nil, err
	}
	_, out.own = object(schema["properties"])[out.name]
	return out, nil
}

// checkForm rejects forms that cannot be sent.
func checkForm(p map[string]any, consumes []string) error {
	const urlencoded = "application/x-www-form-urlencoded"
	if p["type"] == "file" {
		return call.Configuration("OpenAPI document: the parameter %q is a file, and files cannot be sent yet", p["name"])
	}
	if len(consumes) > 0 && !slices.Contains(consumes, urlencoded) {
		return call.Configuration("OpenAPI document: the operation takes %s, which cannot be sent yet", strings.Join(consumes, ", "))
	}
	return nil
}

// parameter2 converts a collection format to an OpenAPI 3 style.
func parameter2(p map[string]any) parameter {
	out := parameter{required: p["required"] == true, style: "form"}
	out.name, _ = p["name"].(string)
	out.in, _ = p["in"].(string)
	switch p["collectionFormat"] {
	case "multi":
		out.explode = true
	case "ssv":
		out.style = "spaceDelimited"
	case "tsv":
		out.style = "tabDelimited"
	case "pipes":
		out.style = "pipeDelimited"
	}
	return out
}

// server2 returns the server's URI: with https if offered, otherwise with the scheme that the
// document was fetched with.
func (d *document) server2(e *entry) (string, error) {
	scheme := d.at.Scheme
	schemes := d.inherited(e, "schemes")
	switch {
	case slices.Contains(schemes, "https"):
		scheme = "https"
	case len(schemes) > 0 && !slices.Contains(schemes, scheme):
		scheme = schemes[0]
	}
	host, _ := d.root["host"].(string)
	base, _ := d.root["basePath"].(string)
	return d.absolute(scheme + "://" + cmp.Or(host, d.at.Host) + "/" + strings.TrimLeft(base, "/"))
}
