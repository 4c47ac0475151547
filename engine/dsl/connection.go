package dsl

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/yaml"
)

// connections parses endpoints, locations of documents, and authentication.
type connections struct {
	*expressions
	policies map[string]*Authentication // the authentications of use
}

// externalResource parses the location of a document.
func (p *connections) externalResource(n *yaml.Node, what string, s scope) (e Endpoint) {
	if n == nil {
		return e
	}
	if n.Shape == yaml.Text {
		p.Mistake(n.Pos, "write it as {endpoint: …}", "%s: want a map, this is text", what)
		return e
	}
	if !p.object(n, what, keys("name", "endpoint").need("endpoint")) {
		return e
	}
	p.text(n.Get("name"), what+".name")
	return p.endpoint(n.Get("endpoint"), what+".endpoint", s)
}

// endpoint parses a URI, or a map that contains one.
func (p *connections) endpoint(n *yaml.Node, what string, s scope) (e Endpoint) {
	switch {
	case n == nil:
		return e
	case n.Shape != yaml.Object || unquotedTemplate(n) != "" && n.Get("uri") == nil:
		e.URI = p.uri(n, what, s)
		return e
	}
	if p.object(n, what, keys("uri", "authentication").need("uri")) {
		e.URI = p.uri(n.Get("uri"), what+".uri", s)
		e.Authentication = p.authentication(n.Get("authentication"), s)
	}
	return e
}

// target warns about an endpoint to which no request can be sent.
func (p *connections) target(n *yaml.Node, what string, s scope) {
	if n != nil && n.Shape == yaml.Object {
		n = n.Get("uri")
		what += ".uri"
	}
	if n == nil || n.Shape != yaml.Text || strings.Contains(n.Text(), "${") || n.Text() == "" {
		return
	}
	src := n.Text()
	if goTemplate().MatchString(src) {
		p.Warn(ruleTemplate, n.Pos, "write: "+interpolated(src, goTemplate()), "%s: {{ }} is not filled in", what)
		return
	}
	for _, m := range template().FindAllStringSubmatch(src, -1) {
		if strings.TrimSpace(m[1]) == "" {
			p.Warn(ruleTemplate, n.Pos, "write the name of a member of the task's input: "+strings.ReplaceAll(src, m[0], "{id}"),
				"%s: %s does not name a variable, and becomes empty", what, m[0])
			return
		}
		if strings.ContainsAny(m[1], "+#/;?&*,") {
			p.Warn(ruleTemplate, n.Pos, "write {name} for each value, and put query parameters into query",
				"%s: {%s} is not expanded: the DSL has only {name} of RFC 6570", what, yaml.Short(m[1]))
			return
		}
		if !templateName().MatchString(m[1]) {
			p.Warn(ruleTemplate, n.Pos, "write: "+interpolated(strings.ReplaceAll(src, m[0], "{{ "+pathOf(m[1])+" }}"), goTemplate()),
				"%s: {%s} stands for the member of the task's input with exactly this name", what, yaml.Short(m[1]))
			return
		}
	}
	if strings.Count(src, "{") != strings.Count(src, "}") {
		p.Warn(ruleTemplate, n.Pos, "close it: https://host/{name}", "%s: a { without a matching }", what)
		return
	}
	if m := colonSegment().FindStringSubmatch(src); m != nil {
		p.Warn(ruleTemplate, n.Pos, "write: "+colonSegment().ReplaceAllString(src, "/{$1}"), "%s: :%s is not filled in", what, m[1])
	}
	if variablePattern().MatchString(src) && s.has(leadingName(src)) || p.resembles(src, s) {
		p.Warn(ruleText, n.Pos, "to use its value, write: "+computing(src), "%s: this is the text %s, not the value of an expression", what, yaml.Quote(src))
		return
	}
	p.absolute(n, src, what)
}

var (
	template     = lazyregexp.New(`\{([^{}]*)\}`)
	templateName = lazyregexp.New(`^[A-Za-z0-9_-]+$`)
	colonSegment = lazyregexp.New(`/:([A-Za-z_]\w*)`)
	hostFirst    = lazyregexp.New(`^(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::\d+)?(?:/|$)`)
)

func pathOf(name string) string {
	name = strings.TrimSpace(name)
	if strings.HasPrefix(name, "$") || strings.HasPrefix(name, ".") {
		return name
	}
	return "." + name
}

// absolute warns about a URI without scheme or host, unless a template may provide them.
func (p *connections) absolute(n *yaml.Node, src, what string) {
	if strings.HasPrefix(src, "{") {
		return
	}
	u, err := url.Parse(template().ReplaceAllString(src, "x"))
	switch {
	case err != nil:
		p.Warn(ruleEndpoint, n.Pos, "write it as https://host/path", "%s: %s is not a URI", what, yaml.Quote(src))
	case u.Scheme == "http" || u.Scheme == "https":
		if u.Hostname() == "" {
			p.Warn(ruleEndpoint, n.Pos, "write it as "+u.Scheme+"://host/path", "%s: %s has no host", what, yaml.Quote(src))
		}
	case hostFirst().MatchString(src):
		scheme := "https"
		if strings.HasPrefix(src, "localhost") || strings.HasPrefix(src, "127.") {
			scheme = "http"
		}
		p.Warn(ruleEndpoint, n.Pos, "write: "+scheme+"://"+src, "%s: %s has no scheme: no request can be sent to it", what, yaml.Quote(src))
	case u.Scheme == "":
		p.Warn(ruleEndpoint, n.Pos, "write it with its scheme and host: https://host/"+strings.TrimLeft(src, "/"),
			"%s: %s is relative: no request can be sent to it", what, yaml.Quote(src))
	default:
		p.Warn(ruleEndpoint, n.Pos, "use http or https", "%s: flunq cannot send requests with the scheme %s", what, yaml.Quote(u.Scheme))
	}
}

func schemes() []string { return []string{"basic", "bearer", "digest", "oauth2", "oidc"} }

// authentication parses a policy, or resolves a reference to one. It returns nil for a nil
// node.
func (p *connections) authentication(n *yaml.Node, s scope) *Authentication {
	if n == nil {
		return nil
	}
	if n.Shape == yaml.Text {
		p.Mistake(n.Pos, "write it as {use: "+yaml.Short(n.Text())+"}", "authentication: want a map, this is text")
		return nil
	}
	use := n.Get("use")
	if use == nil {
		return p.policy(n, s)
	}
	if !p.object(n, "authentication", keys("use")) {
		return nil
	}
	name, ok := p.text(use, "authentication.use")
	if !ok {
		return nil
	}
	a, known := p.policies[name]
	if !known {
		p.Mistake(use.Pos, reference(name, "use.authentications", slices.Sorted(maps.Keys(p.policies))), "unknown authentication %s", yaml.Quote(name))
	}
	return a
}

// policy parses a policy that is written where it is used, or in use.authentications.
func (p *connections) policy(n *yaml.Node, s scope) *Authentication {
	a := &Authentication{}
	if !p.object(n, "authentication", keys(schemes()...)) {
		return a
	}
	if a.Scheme = p.exactlyOne(n, "authentication", schemes()...); a.Scheme == "" {
		return a
	}
	if a.Scheme != "basic" && a.Scheme != "bearer" {
		p.cannotRun(n.KeyPos(a.Scheme), "authentication: "+a.Scheme, instead("authentication"))
	}
	p.scheme(a, n.Get(a.Scheme), s)
	return a
}

// scheme parses the members of a scheme, or the name of the secret that has them.
func (p *connections) scheme(a *Authentication, n *yaml.Node, s scope) {
	if n.Shape == yaml.Text && a.Scheme == "bearer" {
		p.Mistake(n.Pos, "write it as bearer: {token: '"+yaml.Short(n.Text())+"'}", "authentication.bearer: want a map, this is text")
		return
	}
	what := "authentication." + a.Scheme
	if use := n.Get("use"); use != nil {
		if p.object(n, what, keys("use")) {
			a.Secret = p.filled(use, what+".use")
			p.secret(use.Pos, a.Secret)
		}
		return
	}
	switch a.Scheme {
	case "basic", "digest":
		if p.object(n, what, keys("username", "password", "use").need("username", "password")) {
			a.Username = p.credential(n.Get("username"), what+".username", s)
			a.Password = p.credential(n.Get("password"), what+".password", s)
		}
	case "bearer":
		if p.object(n, what, keys("token", "use").need("token")) {
			a.Token = p.credential(n.Get("token"), what+".token", s)
		}
	case "oauth2":
		p.oauth2(n, what, s, "endpoints")
	default:
		p.oauth2(n, what, s)
	}
}

// credential parses a string or an expression. Even in loose mode plain text is literal,
// since it may be a password.
func (p *connections) credential(n *yaml.Node, what string, s scope) *expr.Value {
	src, ok := p.text(n, what)
	switch {
	case !ok:
		return nil
	case !whole(src).is && p.loose:
		return expr.Literal(src)
	default:
		return p.value(n, s)
	}
}

func (p *connections) oauth2(n *yaml.Node, what string, s scope, more ...string) {
	known := append([]string{
		"authority", "grant", "client", "request", "issuers", "scopes", "audiences", "username", "password", "subject", "actor",
	}, more...)
	if !p.object(n, what, keys(known...).need("authority", "grant")) {
		return
	}
	p.uri(n.Get("authority"), what+".authority", s)
	p.word(n.Get("grant"), what+".grant", "", "authorization_code", "client_credentials", "password", "refresh_token",
		"urn:ietf:params:oauth:grant-type:token-exchange")
	if client := n.Get("client"); client != nil {
		p.oauth2Client(client, what+".client", s)
	}
	if request := n.Get("request"); request != nil && p.object(request, what+".request", keys("encoding").others()) {
		p.word(request.Get("encoding"), "request.encoding", "", "application/x-www-form-urlencoded", "application/json")
	}
	for _, name := range []string{"issuers", "scopes", "audiences"} {
		p.arguments(n.Get(name), name, s)
	}
	p.credential(n.Get("username"), what+".username", s)
	p.credential(n.Get("password"), what+".password", s)
	p.oauth2Token(n.Get("subject"), what+".subject", s)
	p.oauth2Token(n.Get("actor"), what+".actor", s)
	ends := n.Get("endpoints")
	if ends != nil && len(more) > 0 && p.object(ends, what+".endpoints", keys("token", "revocation", "introspection").others()) {
		for _, f := range ends.Fields {
			p.credential(f.Value, "endpoints."+yaml.Short(f.Key), s)
		}
	}
}

func (p *connections) oauth2Client(n *yaml.Node, what string, s scope) {
	if !p.object(n, what, keys("id", "secret", "assertion", "authentication")) {
		return
	}
	for _, name := range []string{"id", "secret", "assertion"} {
		p.credential(n.Get(name), what+"."+name, s)
	}
	p.word(n.Get("authentication"), what+".authentication", "",
		"client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt", "none")
}

func (p *connections) oauth2Token(n *yaml.Node, what string, s scope) {
	if n != nil && p.object(n, what, keys("token", "type").need("token", "type")) {
		p.credential(n.Get("token"), what+".token", s)
		p.credential(n.Get("type"), what+".type", s)
	}
}
