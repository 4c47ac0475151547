package dsl

import (
	"slices"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/yaml"
)

func schemes() []string { return []string{"basic", "bearer", "digest", "oauth2", "oidc"} }

// authentication parses a policy, or resolves a reference to one. It returns nil for a nil
// node.
func (p *parser) authentication(n *yaml.Node, s scope) *Authentication {
	if n == nil {
		return nil
	}
	if n.Shape == yaml.Text {
		p.Mistake(n.Pos, "write it as {use: "+yaml.Short(n.Text())+"}", "authentication: want a map, this is text")
		return nil
	}
	use := n.Get("use")
	if use == nil {
		return p.policyOf(n, s)
	}
	if !p.object(n, "authentication", keys("use")) {
		return nil
	}
	name, ok := p.text(use, "authentication.use")
	if !ok {
		return nil
	}
	if _, known := p.shared.authentications.find(name); !known {
		p.Mistake(use.Pos, reference(name, "use.authentications", p.shared.authentications.names), "unknown authentication %s", yaml.Quote(name))
		return nil
	}
	return p.policy(name)
}

// policy parses a policy of use.authentications, once.
func (p *parser) policy(name string) *Authentication {
	if a, ok := p.shared.policies[name]; ok {
		return a
	}
	a := p.policyOf(p.shared.authentications.nodes[name], scope{}.during())
	p.shared.policies[name] = a
	return a
}

func (p *parser) policyOf(n *yaml.Node, s scope) *Authentication {
	a := &Authentication{}
	if n.Get("certificate") != nil {
		p.Mistake(n.Pos, "use one of basic, bearer, digest, oauth2, oidc", "authentication: certificate is no longer part of the language")
		return a
	}
	if !p.object(n, "authentication", keys(schemes()...)) {
		return a
	}
	found := 0
	for _, f := range n.Fields {
		if slices.Contains(schemes(), f.Key) {
			found++
			a.Scheme = f.Key
			if f.Key != "basic" && f.Key != "bearer" {
				p.cannotRun(f.Pos, "authentication: "+f.Key, instead("authentication"))
			}
			p.scheme(a, f, s)
		}
	}
	if found > 1 || len(n.Fields) == 0 {
		p.Mistake(n.Pos, "keep one of basic, bearer, digest, oauth2, oidc", "authentication wants exactly one scheme")
	}
	return a
}

// scheme parses the members of a scheme, or the name of the secret that has them.
func (p *parser) scheme(a *Authentication, f yaml.Field, s scope) {
	n := f.Value
	if n.Shape == yaml.Text && f.Key == "bearer" {
		p.Mistake(n.Pos, "write it as bearer: {token: '"+yaml.Short(n.Text())+"'}", "authentication.bearer: want a map, this is text")
		return
	}
	what := "authentication." + f.Key
	if use := n.Get("use"); use != nil {
		if p.object(n, what, keys("use")) {
			a.Secret = p.filled(use, what+".use")
			p.secret(use.Pos, a.Secret)
		}
		return
	}
	switch f.Key {
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
func (p *parser) credential(n *yaml.Node, what string, s scope) *expr.Value {
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

func (p *parser) oauth2(n *yaml.Node, what string, s scope, more ...string) {
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

func (p *parser) oauth2Client(n *yaml.Node, what string, s scope) {
	if !p.object(n, what, keys("id", "secret", "assertion", "authentication")) {
		return
	}
	for _, name := range []string{"id", "secret", "assertion"} {
		p.credential(n.Get(name), what+"."+name, s)
	}
	p.word(n.Get("authentication"), what+".authentication", "",
		"client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt", "none")
}

func (p *parser) oauth2Token(n *yaml.Node, what string, s scope) {
	if n != nil && p.object(n, what, keys("token", "type").need("token", "type")) {
		p.credential(n.Get("token"), what+".token", s)
		p.credential(n.Get("type"), what+".type", s)
	}
}
