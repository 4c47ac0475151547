package dsl

import (
	"regexp"
	"slices"
	"strings"

	"flunq.io/flunq/engine/expr"
)

func protocols() []string { return []string{"http", "openapi", "grpc", "asyncapi", "a2a", "mcp"} }

var cataloged = regexp.MustCompile(`^[^\s:@]+:[^\s:@]+@([^\s:@]+)$`)

// call parses a call task.
func (p *parser) call(t *Task, n *node, s scope) {
	t.Call = &CallTask{}
	callee, ok := p.text(n.get("call"), "call")
	if !ok {
		return
	}
	with := n.get("with")
	if !slices.Contains(protocols(), callee) {
		p.callFunction(t, n, callee, s)
		return
	}
	t.Call.Protocol = callee
	if with == nil {
		if !p.misspelt(n, "with", append(commonKeys(), "call", "with")) {
			p.mistake(n.Pos, "add `with: …`", "task %s: call: %s has no with", quote(t.Name), callee)
		}
		return
	}
	switch callee {
	case "http":
		t.Call.HTTP = p.callHTTP(with, s)
		return
	case "openapi":
		t.Call.OpenAPI = p.callOpenAPI(with, s)
		return
	case "grpc":
		p.callGRPC(with, s)
	case "asyncapi":
		p.callAsyncAPI(t, with, s)
	case "a2a":
		p.callA2A(with, s)
	default:
		p.callMCP(with, s)
	}
	t.Unsupported = "call: " + callee
	p.cannotRun(n.get("call").Pos, t.Unsupported, instead(callee))
	t.Call.With = p.valueWithoutNotes(with, s)
}

// valueWithoutNotes parses data whose expressions were checked before, without reporting
// anything.
func (p *parser) valueWithoutNotes(n *node, s scope) *expr.Value {
	said := p.notes
	p.notes = &notes{said: map[Mistake]bool{}}
	defer func() { p.notes = said }()
	return p.value(n, s)
}

// callFunction parses a call of a function that use.functions or a catalog defines.
func (p *parser) callFunction(t *Task, n *node, callee string, s scope) {
	t.Call.Protocol = "function"
	if with := n.get("with"); with != nil {
		p.mapOf(with, "with")
		t.Call.With = p.value(with, s)
	}
	if f, ok := p.def.Use.Functions[callee]; ok {
		t.Call.Function = f
		return
	}
	at := n.get("call").Pos
	if strings.Contains(callee, "://") {
		t.Unsupported = "call: " + callee + " (catalog)"
		p.cannotRun(at, "call: "+short(callee),
			"define the function in use.functions; to send a request, write call: http, with: {method: get, endpoint: "+cut(callee, 200)+"}")
		return
	}
	if m := cataloged.FindStringSubmatch(callee); m != nil {
		if _, known := p.shared.catalogs.find(m[1]); !known && m[1] != "default" {
			p.mistake(at, reference(m[1], "use.catalogs", p.shared.catalogs.names), "unknown catalog %s", quote(m[1]))
		}
		t.Unsupported = "call: " + callee + " (catalog)"
		p.cannotRun(at, "call: "+short(callee), instead("catalog"))
		return
	}
	suggestion := p.guess(callee, slices.Concat(protocols(), p.shared.functions))
	if closest(callee, slices.Concat(protocols(), p.shared.functions)) == "" && suggestion != "" {
		suggestion += "; or define it in use.functions"
	}
	p.mistake(at, suggestion, "unknown call %s", quote(callee))
}

func (p *parser) callHTTP(n *node, s scope) *HTTPCall {
	c := &HTTPCall{}
	if !p.object(n, "with of call: http", keys("method", "endpoint", "headers", "body", "query", "output", "redirect").
		need("method", "endpoint")) {
		return c
	}
	c.Method = p.textOrExpression(n.get("method"), "method", s)
	p.method(n.get("method"))
	c.Endpoint = p.endpoint(n.get("endpoint"), "endpoint", s)
	p.target(n.get("endpoint"), "endpoint", s)
	c.Headers = p.pairs(n.get("headers"), "headers", s)
	c.Body = p.value(n.get("body"), s)
	c.Query = p.pairs(n.get("query"), "query", s)
	c.Output, c.Redirect = p.answer(n)
	return c
}

// answer parses what to do with a response.
func (p *parser) answer(n *node) (output string, redirect bool) {
	output = p.word(n.get("output"), "output", "content", "content", "response", "raw")
	return output, p.flag(n.get("redirect"), "redirect")
}

// pairs parses headers or a query: a map of scalars, or one expression.
func (p *parser) pairs(n *node, what string, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	if whole(n.text()).is {
		return p.value(n, s)
	}
	for _, f := range p.mapOf(n, what) {
		switch f.value.shape {
		case null, list, object:
			p.wrong(f.value, what+"."+short(f.key), "text")
		default:
		}
	}
	return p.value(n, s)
}

func (p *parser) callOpenAPI(n *node, s scope) *OpenAPICall {
	c := &OpenAPICall{}
	if !p.object(n, "with of call: openapi", keys("document", "operationId", "parameters", "authentication", "output", "redirect").
		need("document", "operationId")) {
		return c
	}
	c.Document = p.externalResource(n.get("document"), "document", s)
	p.target(n.get("document").get("endpoint"), "document.endpoint", s)
	c.OperationID = p.textOrExpression(n.get("operationId"), "operationId", s)
	p.mapOf(n.get("parameters"), "parameters")
	c.Parameters = p.value(n.get("parameters"), s)
	c.Authentication = p.authentication(n.get("authentication"), s)
	c.Output, c.Redirect = p.answer(n)
	return c
}

// externalResource parses the location of a document.
func (p *parser) externalResource(n *node, what string, s scope) (e Endpoint) {
	if n == nil {
		return e
	}
	if n.shape == text {
		p.mistake(n.Pos, "write it as {endpoint: …}", "%s: want a map, this is text", what)
		return e
	}
	if !p.object(n, what, keys("name", "endpoint").need("endpoint")) {
		return e
	}
	p.text(n.get("name"), what+".name")
	return p.endpoint(n.get("endpoint"), what+".endpoint", s)
}

// endpoint parses a URI, or a map that contains one.
func (p *parser) endpoint(n *node, what string, s scope) (e Endpoint) {
	switch {
	case n == nil:
		return e
	case n.shape != object || unquotedTemplate(n) != "" && n.get("uri") == nil:
		e.URI = p.uri(n, what, s)
		return e
	}
	if p.object(n, what, keys("uri", "authentication").need("uri")) {
		e.URI = p.uri(n.get("uri"), what+".uri", s)
		e.Authentication = p.authentication(n.get("authentication"), s)
	}
	return e
}

// uri parses a URI, a URI template or an expression. It returns nil for a nil node.
func (p *parser) uri(n *node, what string, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	src, ok := p.text(n, what)
	if !ok {
		return nil
	}
	_, mixed := interpolation(src)
	switch {
	case whole(src).is, strings.HasPrefix(src, "${") && !closes(src), mixed && p.loose:
	case mixed:
		rewritten, _ := interpolation(src)
		p.mistake(n.Pos, "write it as '${ "+cut(rewritten, 200)+" }', or as a template: https://host/{name}",
			"%s: the ${ } inside of longer text is not evaluated", what)
		return expr.Literal(src)
	case src == "":
		p.mistake(n.Pos, "", "%s is empty", what)
	case strings.ContainsAny(src, " \t\r\n\v\f"):
		p.mistake(n.Pos, "", "%s: %s is not a URI: it has spaces", what, quote(src))
	default:
		// Even in loose mode a plain URI is literal.
		return expr.Literal(src)
	}
	return p.value(n, s)
}

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
