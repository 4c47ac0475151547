package dsl

import "regexp"

var hostPattern = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-.]{0,61}[a-zA-Z0-9])?$`)

func (p *parser) callGRPC(n *node, s scope) {
	if !p.object(n, "with of call: grpc", keys("proto", "service", "method", "arguments").need("proto", "service", "method")) {
		return
	}
	p.externalResource(n.get("proto"), "proto", s)
	p.textOrExpression(n.get("method"), "method", s)
	p.data(n.get("arguments"), "arguments", s)
	service := n.get("service")
	if service == nil || !p.object(service, "service", keys("name", "host", "port", "authentication").need("name", "host")) {
		return
	}
	p.textOrExpression(service.get("name"), "service.name", s)
	if host, ok := p.text(service.get("host"), "service.host"); ok && !hostPattern.MatchString(host) {
		p.mistake(service.get("host").Pos, "host: api.example.com", "service.host: %s is not a host name", quote(host))
	}
	p.whole(service.get("port"), "service.port", 0, 65535)
	p.authentication(service.get("authentication"), s)
}

func (p *parser) callA2A(n *node, s scope) {
	if !p.object(n, "with of call: a2a", keys("agentCard", "server", "method", "parameters").need("method")) {
		return
	}
	p.word(n.get("method"), "method", "", "message/send", "message/stream", "tasks/get", "tasks/list", "tasks/cancel",
		"tasks/resubscribe", "tasks/pushNotificationConfig/set", "tasks/pushNotificationConfig/get",
		"tasks/pushNotificationConfig/list", "tasks/pushNotificationConfig/delete", "agent/getAuthenticatedExtendedCard")
	if card := n.get("agentCard"); card != nil {
		p.externalResource(card, "agentCard", s)
	}
	if server := n.get("server"); server != nil {
		p.endpoint(server, "server", s)
	}
	parameters := n.get("parameters")
	if parameters != nil && parameters.shape == object && len(parameters.fields) == 0 {
		p.mistake(parameters.Pos, "leave it out", "parameters is empty")
	}
	p.mapOrText(parameters, "parameters", s)
}

// mapOrText checks that a value is a map or a string.
func (p *parser) mapOrText(n *node, what string, s scope) {
	if n == nil {
		return
	}
	if n.shape != text {
		p.mapOf(n, what)
	}
	p.value(n, s)
}

func (p *parser) callMCP(n *node, s scope) {
	known := keys("protocolVersion", "method", "parameters", "timeout", "transport", "client").need("method", "transport")
	if !p.object(n, "with of call: mcp", known.others()) {
		return
	}
	p.textOrExpression(n.get("protocolVersion"), "protocolVersion", s)
	p.word(n.get("method"), "method", "", "tools/list", "tools/call", "prompts/list", "prompts/get",
		"resources/list", "resources/read", "resources/templates/list")
	p.mapOrText(n.get("parameters"), "parameters", s)
	p.duration(n.get("timeout"), "timeout", s)
	if transport := n.get("transport"); transport != nil {
		p.transport(transport, s)
	}
	client := n.get("client")
	if client != nil && p.object(client, "client", keys("name", "version", "description").need("name", "version").others()) {
		p.textOrExpression(client.get("name"), "client.name", s)
		p.textOrExpression(client.get("version"), "client.version", s)
	}
}

func (p *parser) transport(n *node, s scope) {
	if !p.object(n, "transport", keys("http", "stdio", "options").others()) {
		return
	}
	web, stdio := n.get("http"), n.get("stdio")
	if (web == nil) == (stdio == nil) {
		p.mistake(n.Pos, "add http: {endpoint: …} or stdio: {command: …}", "transport wants exactly one of http and stdio")
	}
	if web != nil && p.object(web, "transport.http", keys("endpoint", "headers").need("endpoint").others()) {
		p.endpoint(web.get("endpoint"), "transport.http.endpoint", s)
		p.textMap(web.get("headers"), "transport.http.headers", s)
	}
	if stdio != nil && p.object(stdio, "transport.stdio", keys("command", "arguments", "environment").need("command").others()) {
		p.textOrExpression(stdio.get("command"), "transport.stdio.command", s)
		p.arguments(stdio.get("arguments"), "transport.stdio.arguments", s)
		p.textMap(stdio.get("environment"), "transport.stdio.environment", s)
	}
	p.textMap(n.get("options"), "transport.options", s)
}

// textMap checks that a value is a map of strings.
func (p *parser) textMap(n *node, what string, s scope) {
	for _, f := range p.mapOf(n, what) {
		p.textOrExpression(f.value, what+"."+short(f.key), s)
	}
}

func (p *parser) callAsyncAPI(t *Task, n *node, s scope) {
	if !p.object(n, "with of call: asyncapi", keys("document", "channel", "operation", "server", "protocol", "message",
		"subscription", "authentication").need("document")) {
		return
	}
	p.exactlyOne(n, "channel", "operation")
	p.exactlyOne(n, "message", "subscription")
	p.externalResource(n.get("document"), "document", s)
	p.textOrExpression(n.get("channel"), "channel", s)
	p.textOrExpression(n.get("operation"), "operation", s)
	p.word(n.get("protocol"), "protocol", "", "amqp", "amqp1", "anypointmq", "googlepubsub", "http", "ibmmq", "jms", "kafka",
		"mercure", "mqtt", "mqtt5", "nats", "pulsar", "redis", "sns", "solace", "sqs", "stomp", "ws")
	p.authentication(n.get("authentication"), s)
	if server := n.get("server"); server != nil && p.object(server, "server", keys("name", "variables").need("name")) {
		p.textOrExpression(server.get("name"), "server.name", s)
		p.data(server.get("variables"), "server.variables", s)
	}
	if message := n.get("message"); message != nil && p.object(message, "message", keys("payload", "headers")) {
		p.data(message.get("payload"), "message.payload", s)
		p.data(message.get("headers"), "message.headers", s)
	}
	if subscription := n.get("subscription"); subscription != nil {
		p.subscription(t, subscription, s)
	}
}

func (p *parser) exactlyOne(n *node, one, other string) {
	a, b := n.get(one), n.get(other)
	switch {
	case a == nil && b == nil:
		p.mistake(n.Pos, "add one", "want one of %s and %s", one, other)
	case a != nil && b != nil:
		p.mistake(b.Pos, "keep one", "here are both %s and %s", one, other)
	}
}

func (p *parser) subscription(t *Task, n *node, s scope) {
	if !p.object(n, "subscription", keys("filter", "consume", "foreach").need("consume")) {
		return
	}
	p.expression(n.get("filter"), "subscription.filter", s)
	if consume := n.get("consume"); consume != nil && p.object(consume, "consume", keys("for", "amount", "while", "until")) {
		found := 0
		for _, name := range []string{"amount", "while", "until"} {
			if consume.get(name) != nil {
				found++
			}
		}
		if found != 1 {
			p.mistake(consume.Pos, "add `amount: 1`", "consume wants exactly one of amount, while, until")
		}
		p.duration(consume.get("for"), "consume.for", s)
		p.whole(consume.get("amount"), "consume.amount", 1, 1<<31-1)
		p.expression(consume.get("while"), "consume.while", s)
		p.expression(consume.get("until"), "consume.until", s)
	}
	if each := n.get("foreach"); each != nil {
		p.foreach(each, t, t.Ref+"/with/subscription/foreach/do", s)
	}
}
