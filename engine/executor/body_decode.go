package executor

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"flunq.io/flunq/engine/expr"
)

// decodeBody decodes a response's body by its content type: JSON and YAML to data, text
// to a string, an empty body to null, and everything else to base64.
func decodeBody(contentType string, body []byte) (any, error) {
	if len(body) == 0 {
		return nil, nil
	}
	switch formatOf(mediaType(contentType)) {
	case jsonFormat:
		return decodeJSON(body)
	case yamlFormat:
		return decodeYAML(body)
	case textFormat:
		return decodeText(contentType, body), nil
	case unknownFormat:
		if data, err := decodeJSON(body); err == nil {
			return data, nil
		}
		return decodeText("", body), nil
	default:
		return base64.StdEncoding.EncodeToString(body), nil
	}
}

func decodeJSON(body []byte) (any, error) {
	body = withoutMark(body)
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	data, err := expr.DecodeForeign(body)
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
	if body = withoutMark(body); utf8.Valid(body) {
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

// withoutMark removes a UTF-8 byte order mark.
func withoutMark(body []byte) []byte {
	return bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
}
