package executor

import (
	"mime"
	"strings"

	"flunq.io/flunq/engine/expr"
)

// encodeBody encodes data as the body of a request, in the given content type or a
// suitable one.
func encodeBody(data any, given string) (body []byte, contentType string, err error) {
	if raw, ok := data.(string); ok {
		if given == "" {
			given = "text/plain; charset=utf-8"
		}
		return []byte(raw), given, nil
	}
	media := mediaType(given)
	switch {
	case given == "":
		given = "application/json"
	case strings.HasPrefix(media, "multipart/"):
		return nil, "", configuration("body: %s cannot be sent yet", media)
	case media == "application/x-www-form-urlencoded":
		members, ok := data.(map[string]any)
		if !ok {
			return nil, "", expression("body: %s cannot be sent as a form, want an object or a string", expr.Kind(data))
		}
		form, err := encodeForm("body", members)
		return []byte(form), given, err
	}
	return expr.Encode(data), given, nil
}

// mediaType returns a content type in lower case without its parameters.
func mediaType(contentType string) string {
	if media, _, err := mime.ParseMediaType(contentType); err == nil {
		return media
	}
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// format is how a body is decoded.
type format int

const (
	unknownFormat format = iota
	jsonFormat
	yamlFormat
	textFormat
	binaryFormat
)

// formatOf returns the format of a media type.
func formatOf(media string) format {
	switch media {
	case "":
		return unknownFormat
	case "application/json", "text/json":
		return jsonFormat
	case "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/vnd.yaml":
		return yamlFormat
	case "application/xml", "application/javascript", "application/x-www-form-urlencoded",
		"application/x-ndjson", "application/jsonl", "application/graphql", "application/sql":
		return textFormat
	}
	switch {
	case strings.HasSuffix(media, "+json"):
		return jsonFormat
	case strings.HasSuffix(media, "+yaml"):
		return yamlFormat
	case strings.HasSuffix(media, "+xml"), strings.HasPrefix(media, "text/"):
		return textFormat
	}
	return binaryFormat
}
