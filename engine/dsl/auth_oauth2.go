package dsl

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
