package executor

import (
	"net/url"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/expr"
)

// target returns the URI of an endpoint. A literal is a template for the members of the
// task's input; the value of an expression is used unchanged.
func (r *run) target(where string, e dsl.Endpoint) (*url.URL, error) {
	data, err := r.eval(where, e.URI)
	if err != nil {
		return nil, err
	}
	raw, ok := data.(string)
	if !ok {
		return nil, expression("%s is %s, want a URI", where, expr.Kind(data))
	}
	if _, literal := e.URI.Constant(); literal {
		if raw, err = expand(where, raw, r.scope.Dot); err != nil {
			return nil, err
		}
	}
	return parseTarget(where, raw)
}

// parseTarget parses an absolute http or https URI.
func parseTarget(where, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		if inner, ok := err.(*url.Error); ok { //nolint:errorlint // url.Parse gives nothing else, and its text repeats the whole URI
			err = inner.Err
		}
		return nil, configuration("%s is not a URI: %v", where, err)
	}
	return checkTarget(where, u)
}

// checkTarget rejects anything but an absolute http or https URI, and normalizes the rest
// for sending.
func checkTarget(where string, u *url.URL) (*url.URL, error) {
	scheme := strings.ToLower(u.Scheme)
	switch {
	case scheme == "":
		return nil, configuration("%s %q is relative, want an absolute http or https URI", where, u.Path)
	case scheme != "http" && scheme != "https":
		return nil, configuration("%s has the scheme %q, want http or https", where, scheme)
	case u.Hostname() == "":
		return nil, configuration("%s names no host", where)
	}
	fit := *u
	fit.Scheme = scheme
	fit.Fragment, fit.RawFragment = "", ""
	fit.RawQuery = escapeRest(u.RawQuery)
	return &fit, nil
}

// place returns a URI for display: without user and query.
func place(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// expand fills in a URI template: {name} stands for the member of data with exactly that
// name, percent-encoded. A missing or null member is an error, and so is an empty one
// except in the query: DELETE /orders/{id} without an id would mean all orders.
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
			return "", configuration("%s: no } after {%s", where, name)
		}
		value, present := members[name]
		filled, ok := expr.Scalar(value)
		switch inQuery := strings.Contains(out.String(), "?"); {
		case value == nil && !present:
			return "", expression("%s: {%s} has no value: the task's input has no member %q", where, name, name)
		case value == nil:
			return "", expression("%s: {%s} has no value: the member %q of the task's input is null", where, name, name)
		case !ok:
			return "", expression("%s: {%s} is %s, want a string, a number or a boolean", where, name, expr.Kind(value))
		case filled == "" && !inQuery:
			return "", expression("%s: {%s} is empty, which leads to another resource", where, name)
		}
		out.WriteString(escape(filled, ""))
		rest = end
	}
	if dotSegments(out.String()) > dotSegments(template) {
		return "", expression("%s: a value of . or .. would lead to another path", where)
	}
	return out.String(), nil
}

// dotSegments counts the . and .. segments in a URI's path, which servers resolve.
func dotSegments(uri string) int {
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

// escape percent-encodes everything but unreserved characters and those in keep.
func escape(text, keep string) string {
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

// escapeRest percent-encodes only characters that no URI may contain.
func escapeRest(text string) string {
	const legal = "-._~:/?#[]@!$&'()*+,;=%{}|\\^`"
	return escape(text, legal)
}

func isAlphanumeric(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}

// withQuery returns u with members appended to its query, in the order of their names.
func withQuery(u *url.URL, members map[string]any) (*url.URL, error) {
	query, err := encodeForm("query", members)
	if err != nil {
		return nil, err
	}
	return appendQuery(u, query), nil
}

func appendQuery(u *url.URL, query string) *url.URL {
	extended := *u
	if u.RawQuery != "" && query != "" {
		query = "&" + query
	}
	extended.RawQuery += query
	return &extended
}

// encodeForm encodes members as name=value pairs. A list repeats its name; null is
// omitted.
func encodeForm(where string, members map[string]any) (string, error) {
	var pairs []string
	for _, name := range sortedNames(members) {
		items, isList := members[name].([]any)
		if !isList {
			items = []any{members[name]}
		}
		for _, item := range items {
			value, ok := expr.Scalar(item)
			if !ok && item != nil {
				return "", expression("%s: %s is %s, want a string, a number, a boolean or a list of them",
					where, name, expr.Kind(item))
			}
			if item != nil {
				pairs = append(pairs, escape(name, "")+"="+escape(value, ""))
			}
		}
	}
	return strings.Join(pairs, "&"), nil
}

func sortedNames(members map[string]any) []string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
