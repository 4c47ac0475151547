package openapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/content"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/spelling"
)

// fillBody builds the body from the values that are not parameters.
func (b *binding) fillBody() error {
	rest := map[string]any{}
	for name, value := range b.given {
		if !b.used[name] {
			rest[name] = value
		}
	}
	p := b.op.payload
	if p == nil {
		return b.unknown(rest)
	}
	var data any = rest
	whole, given := p.whole(rest)
	switch {
	case given != "":
		delete(rest, given)
		if err := b.unknown(rest); err != nil {
			return err
		}
		data = whole
	case len(rest) == 0 && p.required:
		return call.Validation("parameters: the operation %s needs a body: give %q, or the body's properties", b.op.id, p.name)
	case len(rest) == 0:
		return nil
	}
	if data == nil {
		return nil
	}
	media, err := p.choose(data)
	if err != nil {
		return err
	}
	body, contentType, err := p.encode(data, media)
	if err != nil {
		return err
	}
	b.body = body
	b.header.Set("Content-Type", contentType)
	return nil
}

// unknown returns the problem of values that belong nowhere.
func (b *binding) unknown(rest map[string]any) error {
	var problems []string
	known := make([]string, 0, len(b.op.parameters))
	for _, p := range b.op.parameters {
		known = append(known, p.name)
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		problems = append(problems, fmt.Sprintf("%q%s", name, didYouMean(name, known)))
	}
	if len(problems) == 0 {
		return nil
	}
	return call.Validation("parameters: the operation %s has no %s", b.op.id, strings.Join(problems, ", no "))
}

// whole returns the body if it was given as one value, and the name it was given under.
func (p *payload) whole(rest map[string]any) (body any, name string) {
	if p.own {
		return nil, "" // it is a property of the body
	}
	for _, name := range []string{p.name, "body"} {
		if value, ok := rest[name]; ok {
			return value, name
		}
	}
	return nil, ""
}

// choose picks a content type for a body from those that the operation accepts. For types other
// than JSON, a string is taken as already encoded.
func (p *payload) choose(data any) (string, error) {
	wanted := []func(media string) bool{isJSON, isForm, isAny}
	if _, isText := data.(string); isText {
		wanted = []func(media string) bool{isPlain, isJSON, isForm, isAny}
	}
	for _, fits := range wanted {
		i := slices.IndexFunc(p.media, func(m string) bool { return fits(content.MediaType(m)) })
		if i >= 0 {
			return p.media[i], nil
		}
	}
	if len(p.media) == 0 {
		return "*/*", nil
	}
	return "", call.Configuration("OpenAPI document: the operation takes %s, as which %s cannot be sent yet",
		strings.Join(p.media, ", "), canonical.Kind(data))
}

func isJSON(media string) bool { return content.FormatOf(media) == content.JSON }

func isForm(media string) bool { return media == "application/x-www-form-urlencoded" }

func isAny(media string) bool { return media == "*/*" || media == "application/*" }

func isPlain(media string) bool {
	return !isJSON(media) && !isForm(media) && !strings.Contains(media, "*") && !strings.HasPrefix(media, "multipart/")
}

// encode encodes a body in the content type that choose picked. In JSON, a string is a value and
// gets quotes.
func (p *payload) encode(data any, media string) (body []byte, contentType string, err error) {
	switch _, isText := data.(string); {
	case isAny(content.MediaType(media)):
		return content.Encode(data, "")
	case isText && isJSON(content.MediaType(media)):
		return canonical.Encode(data), media, nil
	}
	return content.Encode(data, media)
}

// didYouMean returns a suggestion for the end of a message, if a known name is similar.
func didYouMean(name string, known []string) string {
	if found := spelling.Word(name, known); found != "" {
		return fmt.Sprintf(" (did you mean %q?)", found)
	}
	return ""
}
