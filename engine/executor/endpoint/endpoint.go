// Package endpoint determines where a call goes: it fills in URI templates, checks URIs, and
// encodes queries and forms.
package endpoint

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/expr/canonical"
)

// URI returns the URI of an endpoint; where names the member in errors. A literal is a template
// for the members of the task's input; the value of an expression is used unchanged.
func URI(run *call.Run, where string, e dsl.Endpoint) (*url.URL, error) {
	data, err := run.Eval(where, e.URI)
	if err != nil {
		return nil, err
	}
	raw, ok := data.(string)
	if !ok {
		return nil, call.Expression("%s is %s, want a URI", where, canonical.Kind(data))
	}
	if _, literal := e.URI.Constant(); literal {
		if raw, err = expand(where, raw, run.Input()); err != nil {
			return nil, err
		}
	}
	return Parse(where, raw)
}

// Parse parses an absolute http or https URI.
func Parse(where, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		if inner, ok := err.(*url.Error); ok { //nolint:errorlint // url.Parse gives nothing else, and its text repeats the whole URI
			err = inner.Err
		}
		return nil, call.Configuration("%s is not a URI: %v", where, err)
	}
	return Check(where, u)
}

// Check rejects everything except an absolute http or https URI, which it normalizes for sending.
func Check(where string, u *url.URL) (*url.URL, error) {
	scheme := strings.ToLower(u.Scheme)
	switch {
	case scheme == "":
		return nil, call.Configuration("%s %q is relative, want an absolute http or https URI", where, u.Path)
	case scheme != "http" && scheme != "https":
		return nil, call.Configuration("%s has the scheme %q, want http or https", where, scheme)
	case u.Hostname() == "":
		return nil, call.Configuration("%s names no host", where)
	}
	fit := *u
	fit.Scheme = scheme
	fit.Fragment, fit.RawFragment = "", ""
	fit.RawQuery = Escape(u.RawQuery, "-._~:/?#[]@!$&'()*+,;=%{}|\\^`") // all that a URI may contain
	return &fit, nil
}

// Show returns a URI for display: without user and query.
func Show(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// expand fills in a URI template: {name} stands for the member of data with exactly that name,
// percent-encoded. A missing or null member is empty text (dsl-reference.md, "URI Template").
func expand(where, template string, data any) (string, error) {
	members, _ := data.(map[string]any)
	var out strings.Builder
	rest := template
	for {
		before, after, found := strings.Cut(rest, "{")
		out.WriteString(before)
		if !found {
			break
		}
		name, end, closed := strings.Cut(after, "}")
		if !closed {
			return "", call.Configuration("%s: no } after {%s", where, name)
		}
		value := members[name]
		filled, ok := canonical.Scalar(value)
		if value != nil && !ok {
			return "", call.Expression("%s: {%s} is %s, want a string, a number or a boolean", where, name, canonical.Kind(value))
		}
		out.WriteString(Escape(filled, ""))
		rest = end
	}
	if DotSegments(out.String()) > DotSegments(template) {
		return "", call.Expression("%s: a value of . or .. would lead to another path", where)
	}
	return out.String(), nil
}

// DotSegments counts the . and .. segments in a URI's path, which servers resolve.
func DotSegments(uri string) int {
	path, _, _ := strings.Cut(uri, "#")
	path, _, _ = strings.Cut(path, "?")
	count := 0
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			count++
		}
	}
	return count
}

// Escape percent-encodes everything except unreserved characters and those in keep.
func Escape(text, keep string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for _, b := range []byte(text) {
		if isAlphanumeric(b) || strings.IndexByte("-._~", b) >= 0 || strings.IndexByte(keep, b) >= 0 {
			out.WriteByte(b)
			continue
		}
		out.Write([]byte{'%', hex[b>>4], hex[b&15]})
	}
	return out.String()
}

func isAlphanumeric(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}

// WithQuery returns u with members appended to its query, in the order of their names.
func WithQuery(u *url.URL, members map[string]any) (*url.URL, error) {
	query, err := EncodeForm("query", members)
	if err != nil {
		return nil, err
	}
	return AppendQuery(u, query), nil
}

// AppendQuery returns a copy of u whose query is extended by query.
func AppendQuery(u *url.URL, query string) *url.URL {
	extended := *u
	if u.RawQuery != "" && query != "" {
		query = "&" + query
	}
	extended.RawQuery += query
	return &extended
}

// EncodeForm encodes members as name=value pairs. A list repeats its name; null is
// omitted.
func EncodeForm(where string, members map[string]any) (string, error) {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		items, isList := members[name].([]any)
		if !isList {
			items = []any{members[name]}
		}
		for _, item := range items {
			value, ok := canonical.Scalar(item)
			if !ok && item != nil {
				return "", call.Expression("%s: %s is %s, want a string, a number, a boolean or a list of them",
					where, name, canonical.Kind(item))
			}
			if item != nil {
				pairs = append(pairs, Escape(name, "")+"="+Escape(value, ""))
			}
		}
	}
	return strings.Join(pairs, "&"), nil
}
