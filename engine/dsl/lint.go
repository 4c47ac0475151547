package dsl

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/yaml"
)

// cannotRun warns of a construct that this version cannot run.
func (p *parser) cannotRun(at yaml.Pos, construct, instead string) {
	before := len(p.Warnings)
	p.Warn(at, instead, "this version of flunq cannot run %s: the workflow faults when it gets there", strconv.Quote(construct))
	for _, w := range p.Warnings[before:] {
		p.def.CannotRun = append(p.def.CannotRun, yaml.Warning(w))
	}
}

// instead suggests an alternative to a protocol or process that cannot be run.
func instead(construct string) string {
	switch construct {
	case "schedule":
		return "start it from outside, for example from cron: flunq start FILE"
	case "use.extensions":
		return "write the tasks where they are needed, or as a function in use.functions"
	case "schema":
		return "write the JSON Schema itself under `document:`"
	case "authentication":
		return "use basic or bearer, with the token from $secrets or from a call of its own"
	case "catalog":
		return "define the function in use.functions"
	case "script":
		return "compute with jq in a set task, or put the code behind an HTTP endpoint"
	default:
		return "put it behind an HTTP endpoint and use call: http"
	}
}

// plainText warns of text that looks like an expression, but is literal.
func (p *parser) plainText(n *yaml.Node, src string, s scope) {
	switch {
	case n.Style == 0 && curlyQuotes.MatchString(src):
		inner := []rune(src)
		p.Warn(n.Pos, "write: "+yaml.InSingleQuotes(string(inner[1:len(inner)-1])), "these quotes are part of the text: YAML knows \" and ' only")
	case almostExpression.MatchString(src):
		inner := almostExpression.FindStringSubmatch(src)
		p.Warn(n.Pos, "to have its value, write: "+computing(strings.TrimSpace(inner[1])), "this is the text %s, not the value of an expression", yaml.Quote(src))
	case variablePattern.MatchString(src) && s.has(leadingName(src)):
		p.Warn(n.Pos, "to have its value, write: ${ "+src+" }", "this is the text %s, not the variable's value", yaml.Quote(src))
	case p.resembles(src, s):
		p.Warn(n.Pos, "to have its value, write: "+computing(src), "this is the text %s, not the value of an expression", yaml.Quote(src))
	case goTemplate.MatchString(src):
		p.Warn(n.Pos, "write: "+interpolated(src, goTemplate), "{{ }} is not filled in: this is plain text")
	case jqFilling.MatchString(src):
		p.Warn(n.Pos, "write: "+yamlQuoted(`${ "`+src+`" }`), `\( ) is filled in within ${ "…" } only: this is plain text`)
	default:
		if inner := shellFilling.FindStringSubmatch(src); inner != nil && s.has(inner[1]) {
			p.Warn(n.Pos, "write: "+interpolated(src, shellFilling), "%s inside of longer text is not filled in", yaml.Quote(inner[0]))
		}
	}
}

var (
	curlyQuotes      = regexp.MustCompile(`^[“”„‘’«].*[“”‘’»]$`)
	almostExpression = regexp.MustCompile(`^(?:\$\s+\{|\$\(|#\{|%\{)(\s*[.$][^{}]*)[})]$`)
	goTemplate       = regexp.MustCompile(`\{\{-?\s*([.$][\w.$\[\]]+)\s*-?\}\}`)
	jqFilling        = regexp.MustCompile(`\\\(\s*[.$][\w.$]*.*\)`)
	shellFilling     = regexp.MustCompile(`\$([A-Za-z_]\w*)(?:\.[A-Za-z_]\w*)+`)
	startsPath       = regexp.MustCompile(`^\(*[.$][A-Za-z_"\[]`)
	usesPath         = regexp.MustCompile(`(?:^|[\s(\[|+*/<>=-])\.[A-Za-z_"\[]`)
	fileEnding       = regexp.MustCompile(`(?i)^\.[a-z0-9_-]*(json|ya?ml|xml|html?|csv|txt|md|pdf|png|jpe?g|gif|svg|zip|gz|tar|log|env|exe|sh|js|ts|py|go|docx?|xlsx?|ignore)$|^\.[a-z0-9.-]+\.(com|org|net|io|dev|local|internal|example|test)$`)
)

// resembles reports whether text was certainly meant as an expression: it compiles as one,
// and reads data. A name such as .gitignore also does, so more is required.
func (p *parser) resembles(src string, s scope) bool {
	if !startsPath.MatchString(src) && !usesPath.MatchString(src) || fileEnding.MatchString(src) {
		return false
	}
	return len(p.Warnings) < yaml.MaxMistakes && !p.overBudget(len(src)) && expr.ReadsData(src, s.has)
}

// computing returns text as the expression that it resembles.
func computing(src string) string {
	return yamlQuoted("${ " + yaml.Cut(strings.TrimSpace(src), 200) + " }")
}

// yamlQuoted quotes text that YAML would not read as it is.
func yamlQuoted(src string) string {
	if strings.Contains(src, ": ") || strings.Contains(src, " #") || strings.ContainsAny(src, "\"'\\{}[],\n") && strings.Count(src, "{") > 1 ||
		strings.ContainsAny(src, "\"'\n") {
		return "'" + strings.ReplaceAll(src, "'", "''") + "'"
	}
	return src
}

// interpolated returns text with jq interpolations in place of what a pattern matches.
func interpolated(src string, places *regexp.Regexp) string {
	var b strings.Builder
	at := 0
	for _, m := range places.FindAllStringSubmatchIndex(src, -1) {
		path := src[m[0]:m[1]]
		if places == goTemplate {
			path = src[m[2]:m[3]]
		}
		b.WriteString(unquoted(src[at:m[0]]) + `\(` + path + ")")
		at = m[1]
	}
	b.WriteString(unquoted(src[at:]))
	return yamlQuoted(`${ "` + yaml.Cut(b.String(), 200) + `" }`)
}

func methods() []string {
	return []string{
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY", "SEARCH", "PURGE", "LINK", "UNLINK",
		"COPY", "LOCK", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "UNLOCK", "REPORT", "MKCALENDAR", "ACL", "BIND", "REBIND", "UNBIND",
		"MERGE", "CHECKOUT", "MKACTIVITY", "M-SEARCH", "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE", "LIST",
	}
}

// method warns of an unknown HTTP method.
func (p *parser) method(n *yaml.Node) {
	if n == nil || n.Shape != yaml.Text || strings.Contains(n.Text(), "${") || slices.Contains(methods(), strings.ToUpper(n.Text())) {
		return
	}
	suggestion := "known are GET, POST, PUT, PATCH, DELETE, HEAD and OPTIONS"
	switch strings.ToLower(n.Text()) {
	case "fetch", "read", "retrieve", "load":
		suggestion = `did you mean "GET"?`
	case "create", "send", "submit", "add":
		suggestion = `did you mean "POST"?`
	case "update", "replace":
		suggestion = `did you mean "PUT" or "PATCH"?`
	case "remove":
		suggestion = `did you mean "DELETE"?`
	default:
		if found := closest(n.Text(), methods()[:7]); found != "" {
			suggestion = "did you mean " + yaml.Quote(found) + "?"
		}
	}
	p.Warn(n.Pos, suggestion, "HTTP has no method %s", yaml.Quote(n.Text()))
}

var (
	template     = regexp.MustCompile(`\{([^{}]*)\}`)
	templateName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	colonSegment = regexp.MustCompile(`/:([A-Za-z_]\w*)`)
	hostFirst    = regexp.MustCompile(`^(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::\d+)?(?:/|$)`)
)

// target warns of an endpoint to which no request can be sent.
func (p *parser) target(n *yaml.Node, what string, s scope) {
	if n != nil && n.Shape == yaml.Object {
		n = n.Get("uri")
		what += ".uri"
	}
	if n == nil || n.Shape != yaml.Text || strings.Contains(n.Text(), "${") || n.Text() == "" {
		return
	}
	src := n.Text()
	for _, m := range template.FindAllStringSubmatch(src, -1) {
		if strings.TrimSpace(m[1]) == "" {
			p.Warn(n.Pos, "write the name of a member of the task's input: "+strings.ReplaceAll(src, m[0], "{id}"),
				"%s: %s names no variable: the task faults", what, m[0])
			return
		}
		if !templateName.MatchString(m[1]) {
			p.Warn(n.Pos, "write: "+interpolated(strings.ReplaceAll(src, m[0], "{{ "+pathOf(m[1])+" }}"), goTemplate),
				"%s: {%s} stands for the member of the task's input with exactly this name", what, yaml.Short(m[1]))
			return
		}
	}
	if strings.Count(src, "{") != strings.Count(src, "}") {
		p.Warn(n.Pos, "close it: https://host/{name}", "%s: a { without its }", what)
		return
	}
	if m := colonSegment.FindStringSubmatch(src); m != nil {
		p.Warn(n.Pos, "write: "+colonSegment.ReplaceAllString(src, "/{$1}"), "%s: :%s is not filled in", what, m[1])
	}
	if variablePattern.MatchString(src) && s.has(leadingName(src)) || p.resembles(src, s) {
		p.Warn(n.Pos, "to have its value, write: "+computing(src), "%s: this is the text %s, not the value of an expression", what, yaml.Quote(src))
		return
	}
	p.absolute(n, src, what)
}

func pathOf(name string) string {
	name = strings.TrimSpace(name)
	if strings.HasPrefix(name, "$") || strings.HasPrefix(name, ".") {
		return name
	}
	return "." + name
}

// absolute warns of a URI without scheme or host, unless a template may provide them.
func (p *parser) absolute(n *yaml.Node, src, what string) {
	if strings.HasPrefix(src, "{") {
		return
	}
	u, err := url.Parse(template.ReplaceAllString(src, "x"))
	switch {
	case err != nil:
		p.Warn(n.Pos, "write it as https://host/path", "%s: %s is not a URI", what, yaml.Quote(src))
	case u.Scheme == "http" || u.Scheme == "https":
		if u.Hostname() == "" {
			p.Warn(n.Pos, "write it as "+u.Scheme+"://host/path", "%s: %s names no host", what, yaml.Quote(src))
		}
	case hostFirst.MatchString(src):
		scheme := "https"
		if strings.HasPrefix(src, "localhost") || strings.HasPrefix(src, "127.") {
			scheme = "http"
		}
		p.Warn(n.Pos, "write: "+scheme+"://"+src, "%s: %s has no scheme: no request can be sent to it", what, yaml.Quote(src))
	case u.Scheme == "":
		p.Warn(n.Pos, "write it with its scheme and host: https://host/"+strings.TrimLeft(src, "/"),
			"%s: %s is relative: no request can be sent to it", what, yaml.Quote(src))
	default:
		p.Warn(n.Pos, "use http or https", "%s: requests cannot be sent to the scheme %s", what, yaml.Quote(u.Scheme))
	}
}

// jitter warns of a range whose start is after its end.
func (p *parser) jitter(n *yaml.Node, from, to *expr.Value) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	least, ok := fixedDuration(from)
	most, also := fixedDuration(to)
	if ok && also && least.From(begin).After(most.From(begin)) {
		p.Warn(n.Pos, fmt.Sprintf("write from: %v, to: %v", most, least), "retry.jitter: from is longer than to")
	}
}

// fixedDuration returns a duration that is a constant of the document.
func fixedDuration(v *expr.Value) (Duration, bool) {
	if v == nil {
		return Duration{}, false
	}
	data, constant := v.Constant()
	if !constant {
		return Duration{}, false
	}
	d, err := ParseDuration(data)
	return d, err == nil
}

// standardTypes returns the names of the standard errors.
func standardTypes() []string {
	return []string{"configuration", "validation", "expression", "authentication", "authorization", "timeout", "communication", "runtime"}
}

// errorType warns of a standard error type that does not exist.
func (p *parser) errorType(n *yaml.Node, typ string) {
	for _, base := range standardBases() {
		name, is := strings.CutPrefix(typ, base)
		if is && !slices.Contains(standardTypes(), name) {
			p.Warn(n.Pos, p.guess(name, standardTypes()), "there is no standard error %s", yaml.Quote(name))
			return
		}
	}
}
