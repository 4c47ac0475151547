package dsl

import (
	"slices"

	"flunq.io/flunq/engine/expr"
)

func schemes() []string { return []string{"basic", "bearer", "digest", "oauth2", "oidc"} }

// authentication parses a policy, or resolves a reference to one. It returns nil for a nil
// node.
func (p *parser) authentication(n *node, s scope) *Authentication {
	if n == nil {
		return nil
	}
	if n.shape == text {
		p.mistake(n.Pos, "write it as {use: "+short(n.text())+"}", "authentication: want a map, this is text")
		return nil
	}
	use := n.get("use")
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
		p.mistake(use.Pos, reference(name, "use.authentications", p.shared.authentications.names), "unknown authentication %s", quote(name))
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

func (p *parser) policyOf(n *node, s scope) *Authentication {
	a := &Authentication{}
	if n.get("certificate") != nil {
		p.mistake(n.Pos, "use one of basic, bearer, digest, oauth2, oidc", "authentication: certificate is no longer part of the language")
		return a
	}
	if !p.object(n, "authentication", keys(schemes()...)) {
		return a
	}
	found := 0
	for _, f := range n.fields {
		if slices.Contains(schemes(), f.key) {
			found++
			a.Scheme = f.key
			if f.key != "basic" && f.key != "bearer" {
				p.cannotRun(f.pos, "authentication: "+f.key, instead("authentication"))
			}
			p.scheme(a, f, s)
		}
	}
	if found > 1 || len(n.fields) == 0 {
		p.mistake(n.Pos, "keep one of basic, bearer, digest, oauth2, oidc", "authentication wants exactly one scheme")
	}
	return a
}

// scheme parses the members of a scheme, or the name of the secret that has them.
func (p *parser) scheme(a *Authentication, f field, s scope) {
	n := f.value
	if n.shape == text && f.key == "bearer" {
		p.mistake(n.Pos, "write it as bearer: {token: '"+short(n.text())+"'}", "authentication.bearer: want a map, this is text")
		return
	}
	what := "authentication." + f.key
	if use := n.get("use"); use != nil {
		if p.object(n, what, keys("use")) {
			a.Secret = p.filled(use, what+".use")
			p.secret(use.Pos, a.Secret)
		}
		return
	}
	switch f.key {
	case "basic", "digest":
		if p.object(n, what, keys("username", "password", "use").need("username", "password")) {
			a.Username = p.credential(n.get("username"), what+".username", s)
			a.Password = p.credential(n.get("password"), what+".password", s)
		}
	case "bearer":
		if p.object(n, what, keys("token", "use").need("token")) {
			a.Token = p.credential(n.get("token"), what+".token", s)
		}
	case "oauth2":
		p.oauth2(n, what, s, "endpoints")
	default:
		p.oauth2(n, what, s)
	}
}

// credential parses a string or an expression. Even in loose mode plain text is literal,
// since it may be a password.
func (p *parser) credential(n *node, what string, s scope) *expr.Value {
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

func (p *parser) oauth2(n *node, what string, s scope, more ...string) {
	known := append([]string{
		"authority", "grant", "client", "request", "issuers", "scopes", "audiences", "username", "password", "subject", "actor",
	}, more...)
	if !p.object(n, what, keys(known...).need("authority", "grant")) {
		return
	}
	p.uri(n.get("authority"), what+".authority", s)
	p.word(n.get("grant"), what+".grant", "", "authorization_code", "client_credentials", "password", "refresh_token",
		"urn:ietf:params:oauth:grant-type:token-exchange")
	if client := n.get("client"); client != nil {
		p.oauth2Client(client, what+".client", s)
	}
	if request := n.get("request"); request != nil && p.object(request, what+".request", keys("encoding").others()) {
		p.word(request.get("encoding"), "request.encoding", "", "application/x-www-form-urlencoded", "application/json")
	}
	for _, name := range []string{"issuers", "scopes", "audiences"} {
		p.arguments(n.get(name), name, s)
	}
	p.credential(n.get("username"), what+".username", s)
	p.credential(n.get("password"), what+".password", s)
	p.oauth2Token(n.get("subject"), what+".subject", s)
	p.oauth2Token(n.get("actor"), what+".actor", s)
	ends := n.get("endpoints")
	if ends != nil && len(more) > 0 && p.object(ends, what+".endpoints", keys("token", "revocation", "introspection").others()) {
		for _, f := range ends.fields {
			p.credential(f.value, "endpoints."+short(f.key), s)
		}
	}
}

func (p *parser) oauth2Client(n *node, what string, s scope) {
	if !p.object(n, what, keys("id", "secret", "assertion", "authentication")) {
		return
	}
	for _, name := range []string{"id", "secret", "assertion"} {
		p.credential(n.get(name), what+"."+name, s)
	}
	p.word(n.get("authentication"), what+".authentication", "",
		"client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt", "none")
}

func (p *parser) oauth2Token(n *node, what string, s scope) {
	if n != nil && p.object(n, what, keys("token", "type").need("token", "type")) {
		p.credential(n.get("token"), what+".token", s)
		p.credential(n.get("type"), what+".type", s)
	}
}
