package dsl

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/yaml"
)

// calls parses the arguments of a call, by its protocol.
type calls struct{ *connections }

func protocols() []string { return []string{"http", "openapi", "grpc", "asyncapi", "a2a", "mcp"} }

func (p *calls) http(n *yaml.Node, s scope) *HTTPCall {
	c := &HTTPCall{}
	if !p.object(n, "with of call: http", keys("method", "endpoint", "headers", "body", "query", "output", "redirect").
		need("method", "endpoint")) {
		return c
	}
	c.Method = p.textOrExpression(n.Get("method"), "method", s)
	p.method(n.Get("method"))
	c.Endpoint = p.endpoint(n.Get("endpoint"), "endpoint", s)
	p.target(n.Get("endpoint"), "endpoint", s)
	c.Headers = p.pairs(n.Get("headers"), "headers", s)
	c.Body = p.value(n.Get("body"), s)
	c.Query = p.pairs(n.Get("query"), "query", s)
	c.Output, c.Redirect = p.answer(n)
	return c
}

func methods() []string {
	return []string{
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY", "SEARCH", "PURGE", "LINK", "UNLINK",
		"COPY", "LOCK", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "UNLOCK", "REPORT", "MKCALENDAR", "ACL", "BIND", "REBIND", "UNBIND",
		"MERGE", "CHECKOUT", "MKACTIVITY", "M-SEARCH", "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE", "LIST",
	}
}

// method warns about an unknown HTTP method.
func (p *calls) method(n *yaml.Node) {
	if n == nil || n.Shape != yaml.Text || strings.Contains(n.Text(), "${") || slices.Contains(methods(), strings.ToUpper(n.Text())) {
		return
	}
	suggestion := "use GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS"
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
			suggestion = question(found)
		}
	}
	p.Warn(ruleMethod, n.Pos, suggestion, "HTTP has no method %s", yaml.Quote(n.Text()))
}

func (p *calls) openAPI(n *yaml.Node, s scope) *OpenAPICall {
	c := &OpenAPICall{}
	if !p.object(n, "with of call: openapi", keys("document", "operationId", "parameters", "authentication", "output", "redirect").
		need("document", "operationId")) {
		return c
	}
	c.Document = p.externalResource(n.Get("document"), "document", s)
	p.target(n.Get("document").Get("endpoint"), "document.endpoint", s)
	c.OperationID = p.textOrExpression(n.Get("operationId"), "operationId", s)
	p.mapOf(n.Get("parameters"), "parameters")
	c.Parameters = p.value(n.Get("parameters"), s)
	c.Authentication = p.authentication(n.Get("authentication"), s)
	c.Output, c.Redirect = p.answer(n)
	return c
}

// answer parses how to treat a response.
func (p *calls) answer(n *yaml.Node) (output string, redirect bool) {
	output = p.word(n.Get("output"), "output", "content", "content", "response", "raw")
	return output, p.flag(n.Get("redirect"), "redirect")
}

func (p *calls) grpc(n *yaml.Node, s scope) {
	if !p.object(n, "with of call: grpc", keys("proto", "service", "method", "arguments").need("proto", "service", "method")) {
		return
	}
	p.externalResource(n.Get("proto"), "proto", s)
	p.textOrExpression(n.Get("method"), "method", s)
	p.data(n.Get("arguments"), "arguments", s)
	service := n.Get("service")
	if service == nil || !p.object(service, "service", keys("name", "host", "port", "authentication").need("name", "host")) {
		return
	}
	p.textOrExpression(service.Get("name"), "service.name", s)
	if host, ok := p.text(service.Get("host"), "service.host"); ok && !hostPattern().MatchString(host) {
		p.Mistake(service.Get("host").Pos, "host: api.example.com", "service.host: %s is not a host name", yaml.Quote(host))
	}
	p.whole(service.Get("port"), "service.port", 0, 65535)
	p.authentication(service.Get("authentication"), s)
}

var hostPattern = lazyregexp.New(`^[a-zA-Z0-9](?:[a-zA-Z0-9-.]{0,61}[a-zA-Z0-9])?$`)

func (p *calls) a2a(n *yaml.Node, s scope) {
	if !p.object(n, "with of call: a2a", keys("agentCard", "server", "method", "parameters").need("method")) {
		return
	}
	p.word(n.Get("method"), "method", "", "message/send", "message/stream", "tasks/get", "tasks/list", "tasks/cancel",
		"tasks/resubscribe", "tasks/pushNotificationConfig/set", "tasks/pushNotificationConfig/get",
		"tasks/pushNotificationConfig/list", "tasks/pushNotificationConfig/delete", "agent/getAuthenticatedExtendedCard")
	if card := n.Get("agentCard"); card != nil {
		p.externalResource(card, "agentCard", s)
	}
	if server := n.Get("server"); server != nil {
		p.endpoint(server, "server", s)
	}
	parameters := n.Get("parameters")
	if parameters != nil && parameters.Shape == yaml.Object && len(parameters.Fields) == 0 {
		p.Mistake(parameters.Pos, "leave it out", "parameters is empty")
	}
	p.parameters(parameters, s)
}

func (p *calls) mcp(n *yaml.Node, s scope) {
	known := keys("protocolVersion", "method", "parameters", "timeout", "transport", "client").need("method", "transport")
	if !p.object(n, "with of call: mcp", known.others()) {
		return
	}
	p.textOrExpression(n.Get("protocolVersion"), "protocolVersion", s)
	p.word(n.Get("method"), "method", "", "tools/list", "tools/call", "prompts/list", "prompts/get",
		"resources/list", "resources/read", "resources/templates/list")
	p.parameters(n.Get("parameters"), s)
	p.duration(n.Get("timeout"), "timeout", s)
	if transport := n.Get("transport"); transport != nil {
		p.transport(transport, s)
	}
	client := n.Get("client")
	if client != nil && p.object(client, "client", keys("name", "version", "description").need("name", "version").others()) {
		p.textOrExpression(client.Get("name"), "client.name", s)
		p.textOrExpression(client.Get("version"), "client.version", s)
	}
}

func (p *calls) transport(n *yaml.Node, s scope) {
	if !p.object(n, "transport", keys("http", "stdio", "options").others()) {
		return
	}
	p.exactlyOne(n, "transport", "http", "stdio")
	web, stdio := n.Get("http"), n.Get("stdio")
	if web != nil && p.object(web, "transport.http", keys("endpoint", "headers").need("endpoint").others()) {
		p.endpoint(web.Get("endpoint"), "transport.http.endpoint", s)
		p.textMap(web.Get("headers"), "transport.http.headers", s)
	}
	if stdio != nil && p.object(stdio, "transport.stdio", keys("command", "arguments", "environment").need("command").others()) {
		p.textOrExpression(stdio.Get("command"), "transport.stdio.command", s)
		p.arguments(stdio.Get("arguments"), "transport.stdio.arguments", s)
		p.textMap(stdio.Get("environment"), "transport.stdio.environment", s)
	}
	p.textMap(n.Get("options"), "transport.options", s)
}

// asyncAPI parses an asyncapi call; foreach parses what to do with each message.
func (p *calls) asyncAPI(n *yaml.Node, s scope, foreach func(*yaml.Node)) {
	if !p.object(n, "with of call: asyncapi", keys("document", "channel", "operation", "server", "protocol", "message",
		"subscription", "authentication").need("document")) {
		return
	}
	p.exactlyOne(n, "with", "channel", "operation")
	p.exactlyOne(n, "with", "message", "subscription")
	p.externalResource(n.Get("document"), "document", s)
	p.textOrExpression(n.Get("channel"), "channel", s)
	p.textOrExpression(n.Get("operation"), "operation", s)
	p.word(n.Get("protocol"), "protocol", "", "amqp", "amqp1", "anypointmq", "googlepubsub", "http", "ibmmq", "jms", "kafka",
		"mercure", "mqtt", "mqtt5", "nats", "pulsar", "redis", "sns", "solace", "sqs", "stomp", "ws")
	p.authentication(n.Get("authentication"), s)
	if server := n.Get("server"); server != nil && p.object(server, "server", keys("name", "variables").need("name")) {
		p.textOrExpression(server.Get("name"), "server.name", s)
		p.data(server.Get("variables"), "server.variables", s)
	}
	if message := n.Get("message"); message != nil && p.object(message, "message", keys("payload", "headers")) {
		p.data(message.Get("payload"), "message.payload", s)
		p.data(message.Get("headers"), "message.headers", s)
	}
	if subscription := n.Get("subscription"); subscription != nil {
		p.subscription(subscription, s, foreach)
	}
}

func (p *calls) subscription(n *yaml.Node, s scope, foreach func(*yaml.Node)) {
	if !p.object(n, "subscription", keys("filter", "consume", "foreach").need("consume")) {
		return
	}
	p.expression(n.Get("filter"), "subscription.filter", s)
	if consume := n.Get("consume"); consume != nil && p.object(consume, "consume", keys("for", "amount", "while", "until")) {
		p.exactlyOne(consume, "consume", "amount", "while", "until")
		p.duration(consume.Get("for"), "consume.for", s)
		p.whole(consume.Get("amount"), "consume.amount", 1, 1<<31-1)
		p.expression(consume.Get("while"), "consume.while", s)
		p.expression(consume.Get("until"), "consume.until", s)
	}
	if each := n.Get("foreach"); each != nil {
		foreach(each)
	}
}
