// Package content encodes data as request bodies and decodes response bodies, according to their
// content types.
package content

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/executor/endpoint"
	"flunq.io/flunq/engine/expr/canonical"
)

// Encode encodes data as the body of a request: with the given content type, or a suitable one if
// that is "".
func Encode(data any, given string) (body []byte, contentType string, err error) {
	if raw, ok := data.(string); ok {
		if given == "" {
			given = "text/plain; charset=utf-8"
		}
		return []byte(raw), given, nil
	}
	media := MediaType(given)
	switch {
	case given == "":
		given = "application/json"
	case strings.HasPrefix(media, "multipart/"):
		return nil, "", call.Configuration("body: %s cannot be sent yet", media)
	case media == "application/x-www-form-urlencoded":
		members, ok := data.(map[string]any)
		if !ok {
			return nil, "", call.Expression("body: %s cannot be sent as a form, want an object or a string", canonical.Kind(data))
		}
		form, err := endpoint.EncodeForm("body", members)
		return []byte(form), given, err
	}
	return canonical.Encode(data), given, nil
}

// MediaType returns a content type in lower case without its parameters.
func MediaType(contentType string) string {
	if media, _, err := mime.ParseMediaType(contentType); err == nil {
		return media
	}
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// format is how a body is decoded.
type format int

// The formats. A body without a content type has unknownFormat.
const (
	unknownFormat format = iota
	JSON
	YAML
	Text
	binaryFormat
)

// FormatOf returns the format of a media type.
func FormatOf(media string) format {
	switch media {
	case "":
		return unknownFormat
	case "application/json", "text/json":
		return JSON
	case "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/vnd.yaml":
		return YAML
	case "application/xml", "application/javascript", "application/x-www-form-urlencoded",
		"application/x-ndjson", "application/jsonl", "application/graphql", "application/sql":
		return Text
	}
	switch {
	case strings.HasSuffix(media, "+json"):
		return JSON
	case strings.HasSuffix(media, "+yaml"):
		return YAML
	case strings.HasSuffix(media, "+xml"), strings.HasPrefix(media, "text/"):
		return Text
	}
	return binaryFormat
}

// Decode decodes a response's body by its content type: JSON and YAML to data, text
// to a string, an empty body to null, and everything else to base64.
func Decode(contentType string, body []byte) (any, error) {
	if len(body) == 0 {
		return nil, nil
	}
	switch FormatOf(MediaType(contentType)) {
	case JSON:
		return DecodeJSON(body)
	case YAML:
		return DecodeYAML(body)
	case Text:
		return decodeText(contentType, body), nil
	case unknownFormat:
		if data, err := DecodeJSON(body); err == nil {
			return data, nil
		}
		return decodeText("", body), nil
	default:
		return base64.StdEncoding.EncodeToString(body), nil
	}
}

// DecodeJSON decodes a body that is JSON, with or without a byte order mark.
func DecodeJSON(body []byte) (any, error) {
	body = WithoutMark(body)
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	data, err := canonical.DecodeForeign(body)
	if err != nil {
		return nil, fmt.Errorf("is not valid JSON: %w", err)
	}
	return data, nil
}

// decodeText decodes text, or encodes it in base64 if its charset is unknown.
func decodeText(contentType string, body []byte) string {
	_, parameters, _ := mime.ParseMediaType(contentType)
	switch strings.ToLower(parameters["charset"]) {
	case "iso-8859-1", "latin1", "iso8859-1":
		return latin1(body)
	}
	if body = WithoutMark(body); utf8.Valid(body) {
		return string(body)
	}
	return base64.StdEncoding.EncodeToString(body)
}

// latin1 decodes ISO 8859-1, whose bytes are the first 256 code points.
func latin1(body []byte) string {
	out := make([]rune, len(body))
	for i, b := range body {
		out[i] = rune(b)
	}
	return string(out)
}

// WithoutMark removes a UTF-8 byte order mark.
func WithoutMark(body []byte) []byte {
	return bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
}
