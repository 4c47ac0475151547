package dsl

import (
	"regexp"
	"slices"
	"strings"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/yaml"
)

func protocols() []string { return []string{"http", "openapi", "grpc", "asyncapi", "a2a", "mcp"} }

var cataloged = regexp.MustCompile(`^[^\s:@]+:[^\s:@]+@([^\s:@]+)$`)

// call parses a call task.
func (p *parser) call(t *Task, n *yaml.Node, s scope) {
	t.Call = &CallTask{}
	callee, ok := p.text(n.Get("call"), "call")
	if !ok {
		return
	}
	with := n.Get("with")
	if !slices.Contains(protocols(), callee) {
		p.callFunction(t, n, callee, s)
		return
	}
	t.Call.Protocol = callee
	if with == nil {
		if !p.misspelt(n, "with", append(commonKeys(), "call", "with")) {
			p.Mistake(n.Pos, "add `with: …`", "task %s: call: %s has no with", yaml.Quote(t.Name), callee)
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
	p.cannotRun(n.Get("call").Pos, t.Unsupported, instead(callee))
	t.Call.With = p.valueWithoutNotes(with, s)
}

// valueWithoutNotes parses data whose expressions were checked before, without reporting
// anything.
func (p *parser) valueWithoutNotes(n *yaml.Node, s scope) *expr.Value {
	said := p.Collector
	p.Collector = yaml.NewCollector("")
	defer func() { p.Collector = said }()
	return p.value(n, s)
}

// callFunction parses a call of a function that use.functions or a catalog defines.
func (p *parser) callFunction(t *Task, n *yaml.Node, callee string, s scope) {
	t.Call.Protocol = "function"
	if with := n.Get("with"); with != nil {
		p.mapOf(with, "with")
		t.Call.With = p.value(with, s)
	}
	if f, ok := p.def.Use.Functions[callee]; ok {
		t.Call.Function = f
		return
	}
	at := n.Get("call").Pos
	if strings.Contains(callee, "://") {
		t.Unsupported = "call: " + callee + " (catalog)"
		p.cannotRun(at, "call: "+yaml.Short(callee),
			"define the function in use.functions; to send a request, write call: http, with: {method: get, endpoint: "+yaml.Cut(callee, 200)+"}")
		return
	}
	if m := cataloged.FindStringSubmatch(callee); m != nil {
		if _, known := p.shared.catalogs.find(m[1]); !known && m[1] != "default" {
			p.Mistake(at, reference(m[1], "use.catalogs", p.shared.catalogs.names), "unknown catalog %s", yaml.Quote(m[1]))
		}
		t.Unsupported = "call: " + callee + " (catalog)"
		p.cannotRun(at, "call: "+yaml.Short(callee), instead("catalog"))
		return
	}
	suggestion := p.guess(callee, slices.Concat(protocols(), p.shared.functions))
	if closest(callee, slices.Concat(protocols(), p.shared.functions)) == "" && suggestion != "" {
		suggestion += "; or define it in use.functions"
	}
	p.Mistake(at, suggestion, "unknown call %s", yaml.Quote(callee))
}

func (p *parser) callHTTP(n *yaml.Node, s scope) *HTTPCall {
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

// answer parses what to do with a response.
func (p *parser) answer(n *yaml.Node) (output string, redirect bool) {
	output = p.word(n.Get("output"), "output", "content", "content", "response", "raw")
	return output, p.flag(n.Get("redirect"), "redirect")
}

// pairs parses headers or a query: a map of scalars, or one expression.
func (p *parser) pairs(n *yaml.Node, what string, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	if whole(n.Text()).is {
		return p.value(n, s)
	}
	for _, f := range p.mapOf(n, what) {
		switch f.Value.Shape {
		case yaml.Null, yaml.List, yaml.Object:
			p.wrong(f.Value, what+"."+yaml.Short(f.Key), "text")
		default:
		}
	}
	return p.value(n, s)
}

func (p *parser) callOpenAPI(n *yaml.Node, s scope) *OpenAPICall {
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

// externalResource parses the location of a document.
func (p *parser) externalResource(n *yaml.Node, what string, s scope) (e Endpoint) {
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
func (p *parser) endpoint(n *yaml.Node, what string, s scope) (e Endpoint) {
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

// uri parses a URI, a URI template or an expression. It returns nil for a nil node.
func (p *parser) uri(n *yaml.Node, what string, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	src, ok := p.text(n, what)
	if !ok {
		return nil
	}
	_, mixed := interpolation(src)
	switch {
	case whole(src).is, strings.HasPrefix(src, "${") && !yaml.HasClosingBrace(src), mixed && p.loose:
	case mixed:
		rewritten, _ := interpolation(src)
		p.Mistake(n.Pos, "write it as '${ "+yaml.Cut(rewritten, 200)+" }', or as a template: https://host/{name}",
			"%s: the ${ } inside of longer text is not evaluated", what)
		return expr.Literal(src)
	case src == "":
		p.Mistake(n.Pos, "", "%s is empty", what)
	case strings.ContainsAny(src, " \t\r\n\v\f"):
		p.Mistake(n.Pos, "", "%s: %s is not a URI: it has spaces", what, yaml.Quote(src))
	default:
		// Even in loose mode a plain URI is literal.
		return expr.Literal(src)
	}
	return p.value(n, s)
}

var hostPattern = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-.]{0,61}[a-zA-Z0-9])?$`)

func (p *parser) callGRPC(n *yaml.Node, s scope) {
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
	if host, ok := p.text(service.Get("host"), "service.host"); ok && !hostPattern.MatchString(host) {
		p.Mistake(service.Get("host").Pos, "host: api.example.com", "service.host: %s is not a host name", yaml.Quote(host))
	}
	p.whole(service.Get("port"), "service.port", 0, 65535)
	p.authentication(service.Get("authentication"), s)
}

func (p *parser) callA2A(n *yaml.Node, s scope) {
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
	p.mapOrText(parameters, "parameters", s)
}

// mapOrText checks that a value is a map or a string.
func (p *parser) mapOrText(n *yaml.Node, what string, s scope) {
	if n == nil {
		return
	}
	if n.Shape != yaml.Text {
		p.mapOf(n, what)
	}
	p.value(n, s)
}

func (p *parser) callMCP(n *yaml.Node, s scope) {
	known := keys("protocolVersion", "method", "parameters", "timeout", "transport", "client").need("method", "transport")
	if !p.object(n, "with of call: mcp", known.others()) {
		return
	}
	p.textOrExpression(n.Get("protocolVersion"), "protocolVersion", s)
	p.word(n.Get("method"), "method", "", "tools/list", "tools/call", "prompts/list", "prompts/get",
		"resources/list", "resources/read", "resources/templates/list")
	p.mapOrText(n.Get("parameters"), "parameters", s)
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

func (p *parser) transport(n *yaml.Node, s scope) {
	if !p.object(n, "transport", keys("http", "stdio", "options").others()) {
		return
	}
	web, stdio := n.Get("http"), n.Get("stdio")
	if (web == nil) == (stdio == nil) {
		p.Mistake(n.Pos, "add http: {endpoint: …} or stdio: {command: …}", "transport wants exactly one of http and stdio")
	}
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

// textMap checks that a value is a map of strings.
func (p *parser) textMap(n *yaml.Node, what string, s scope) {
	for _, f := range p.mapOf(n, what) {
		p.textOrExpression(f.Value, what+"."+yaml.Short(f.Key), s)
	}
}

func (p *parser) callAsyncAPI(t *Task, n *yaml.Node, s scope) {
	if !p.object(n, "with of call: asyncapi", keys("document", "channel", "operation", "server", "protocol", "message",
		"subscription", "authentication").need("document")) {
		return
	}
	p.exactlyOne(n, "channel", "operation")
	p.exactlyOne(n, "message", "subscription")
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
		p.subscription(t, subscription, s)
	}
}

func (p *parser) exactlyOne(n *yaml.Node, one, other string) {
	a, b := n.Get(one), n.Get(other)
	switch {
	case a == nil && b == nil:
		p.Mistake(n.Pos, "add one", "want one of %s and %s", one, other)
	case a != nil && b != nil:
		p.Mistake(b.Pos, "keep one", "here are both %s and %s", one, other)
	}
}

func (p *parser) subscription(t *Task, n *yaml.Node, s scope) {
	if !p.object(n, "subscription", keys("filter", "consume", "foreach").need("consume")) {
		return
	}
	p.expression(n.Get("filter"), "subscription.filter", s)
	if consume := n.Get("consume"); consume != nil && p.object(consume, "consume", keys("for", "amount", "while", "until")) {
		found := 0
		for _, name := range []string{"amount", "while", "until"} {
			if consume.Get(name) != nil {
				found++
			}
		}
		if found != 1 {
			p.Mistake(consume.Pos, "add `amount: 1`", "consume wants exactly one of amount, while, until")
		}
		p.duration(consume.Get("for"), "consume.for", s)
		p.whole(consume.Get("amount"), "consume.amount", 1, 1<<31-1)
		p.expression(consume.Get("while"), "consume.while", s)
		p.expression(consume.Get("until"), "consume.until", s)
	}
	if each := n.Get("foreach"); each != nil {
		p.foreach(each, t, t.Ref+"/with/subscription/foreach/do", s)
	}
}
