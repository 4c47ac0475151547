package sim_test

import (
	"maps"
	"time"
)

// examples returns the runs of each official example. If a document cannot do what its
// name promises, a comment says why.
func examples() map[string][]example {
	out := map[string][]example{}
	for _, table := range []map[string][]example{
		httpExamples(), eventExamples(), flowExamples(), referenceExamples(), unsupportedExamples(),
	} {
		maps.Copy(out, table)
	}
	return out
}

const getPet = `http: [{match: {method: GET, url: "https://petstore.swagger.io/v2/pet/7"}, respond: {body: {id: 7, name: Rex}}}]`

// rex is a run that gets a pet by its number.
func rex() []example {
	return []example{
		{
			input: `{"petId": 7}`, mocks: getPet, output: `{"id": 7, "name": "Rex"}`,
			calls: []string{"GET https://petstore.swagger.io/v2/pet/7"},
		},
		// A missing member is empty, and one that is not a scalar is an error.
		{
			mocks: `http: [{match: {method: GET, url: "https://petstore.swagger.io/v2/pet/"}, respond: {body: []}}]`, output: `[]`,
			calls: []string{"GET https://petstore.swagger.io/v2/pet/"},
		},
		{input: `{"petId": [7]}`, fault: "expression", at: "/do/0/getPet"},
	}
}

// bearerOf7 expects the token from the run's input.
func bearerOf7() []example {
	return []example{
		{
			input: `{"petId": 7, "token": "abc"}`, output: `{"id": 7}`,
			mocks: `http: [{match: {url: "https://petstore.swagger.io/v2/pet/7", headers: {Authorization: Bearer abc}}, respond: {body: {id: 7}}}]`,
		},
		{input: `{"petId": 7}`, fault: "expression", detail: "token", at: "/do/0/getPet"},
	}
}

const people = "https://swapi.dev/api/people/"

func httpExamples() map[string][]example {
	search := []example{
		{
			input: `{"searchQuery": "luke"}`, output: `{"count": 1}`, calls: []string{"GET " + people + "?search=luke"},
			mocks: `http: [{match: {url: "` + people + `", query: {search: luke}}, respond: {body: {count: 1}}}]`,
		},
		{input: `{"searchQuery": 1}`, fault: "validation", at: "/input"},
		{fault: "validation", detail: "searchQuery"},
	}
	pets := []example{{
		mocks: `{http: [{match: {url: "*/swagger.json"}, respond: {body: ` + petstore + `}},
			{match: {url: "https://petstore.swagger.io/v2/pet/findByStatus", query: {status: available}}, respond: {body: [{id: 1}]}}]}`,
		output: `[{"id": 1}]`,
		calls: []string{
			"GET https://petstore.swagger.io/v2/swagger.json",
			"GET https://petstore.swagger.io/v2/pet/findByStatus?status=available",
		},
	}}
	return map[string][]example{
		"authentication-bearer-uri-format.yaml": bearerOf7(),
		"authentication-reusable.yaml":          bearerOf7(),
		"authentication-bearer.yaml": {{
			input: `{"token": "abc"}`, output: `{"id": 1}`,
			mocks: `http: [{match: {url: "https://petstore.swagger.io/v2/pet/1", headers: {Authorization: Bearer abc}}, respond: {body: {id: 1}}}]`,
		}},
		"call-custom-function-inline.yaml": {{
			mocks: `http: [{match: {url: "https://petstore.swagger.io/v2/pet/69"}, respond: {body: {id: 69}}}]`, output: `{"id": 69}`,
		}, {
			mocks: `http: [{respond: {status: 404}}]`, fault: "communication", at: "/use/functions/getPetById",
		}},
		"call-http-endpoint-interpolation-shorthand.yaml": rex(),
		"do-single.yaml": rex(),
		"call-http-endpoint-interpolation.yaml": {{
			input: `{"petId": 7}`, mocks: getPet, output: `{"id": 7, "name": "Rex"}`,
		}},
		"call-http-query-headers-expressions.yaml": {{
			input: `{"searchQuery": "luke"}`, output: `{"count": 1}`,
			mocks: `http: [{match: {url: "` + people + `", query: {search: luke}, headers: {Accept: application/json}}, respond: {body: {count: 1}}}]`,
		}},
		"call-http-query-parameters.yaml": search,
		"call-http-redirect.yaml": append(search, example{
			input: `{"searchQuery": "luke"}`, output: `{"count": 2}`,
			mocks: `http:
  - {match: {url: "` + people + `"}, respond: {status: 302, headers: {Location: /elsewhere}}}
  - {match: {url: "https://swapi.dev/elsewhere"}, respond: {body: {count: 2}}}`,
		}),
		"call-openapi.yaml":          pets,
		"call-openapi-redirect.yaml": pets,
		// The values of the body are strings, not expressions.
		"conditional-task.yaml": {{
			input: `{"customer": {"age": 17}}`, fault: "https://superbet-casinos.com/customer/access-forbidden",
			at: "/do/0/raiseErrorIfUnderage",
		}, {
			input:  `{"customer": {"age": 18}}`,
			mocks:  `http: [{match: {method: POST, url: "*/football", body: {customer: .customer, bet: .bet}}, respond: {body: {placed: true}}}]`,
			output: `{"placed": true}`,
		}},
		// The first call's output replaces the input, so the second call has no petId.
		"do-multiple.yaml": {{
			input: `{"petId": 7}`,
			mocks: getPet,
			calls: []string{"GET https://petstore.swagger.io/v2/pet/7", "PUT https://petstore.swagger.io/v2/pet/"},
			fault: "communication", detail: "no mock answers PUT", at: "/do/1/buyPet",
		}},
		"star-wars-homeworld.yaml": {
			{
				input: `{"id": 1}`,
				mocks: `http:
  - {match: {url: "` + people + `1"}, respond: {body: {homeworld: "https://swapi.dev/api/planets/1"}}}
  - {match: {url: "https://swapi.dev/api/planets/1"}, respond: {body: {name: Tatooine}}}`,
				output: `{"name": "Tatooine"}`,
			},
			{input: `{"id": 0}`, fault: "validation", at: "/input"},
		},
	}
}

const (
	fever = `{type: com.fake-hospital.vitals.measurements.temperature, data: {temperature: 39}}`
	warm  = `{type: com.fake-hospital.vitals.measurements.temperature, data: {temperature: 37}}`
	fast  = `{type: com.fake-hospital.vitals.measurements.bpm, data: {bpm: 120}}`
	calm  = `{type: com.fake-hospital.vitals.measurements.bpm, data: {bpm: 80}}`
	left  = `{type: com.fake-hospital.patient.checked-out, data: {patient: 1}}`
)

// arriving returns mocks of events, one each second.
func arriving(events ...string) string {
	out := "events:\n"
	for i, e := range events {
		out += "  - {after: " + (time.Duration(i+1) * time.Second).String() + ", " + e[1:] + "\n"
	}
	return out
}

func eventExamples() map[string][]example {
	checkups := []example{
		{input: `{"pets": [{"id": 1}]}`, output: `{"pets": [{"id": 1}]}`},
		// The output of listen is a list, which has no member pets.
		{
			input: `{"pets": [{"id": 1}], "vet": "Ada"}`, mocks: arriving(`{type: com.fake.petclinic.pets.checkup.completed.v2}`),
			fault: "expression", at: "/do/0/checkup/do/0/waitForCheckup",
		},
	}
	const either = `[{"bpm": 120}]`
	return map[string][]example{
		// The output of listen is a list, which has no member data.
		"accumulate-room-readings.yaml": {
			{
				mocks: arriving(
					`{type: my.home.sensors.temperature, source: "https://my.home.com/sensor", roomid: "1", data: {t: 20}}`,
					`{type: my.home.sensors.humidity, source: "https://my.home.com/sensor", roomid: "2", data: {h: 40}}`,
					`{type: my.home.sensors.humidity, source: "https://my.home.com/sensor", roomid: "1", data: {h: 50}}`,
				),
				fault: "expression", at: "/do/0/consumeReading", elapsed: 3 * time.Second,
			},
			{
				mocks: arriving(
					`{type: my.home.sensors.temperature, source: "https://my.home.com/sensor", roomid: "1"}`,
					`{type: my.home.sensors.humidity, source: "https://my.home.com/sensor", roomid: "2"}`,
				),
				fault: "timeout", elapsed: time.Hour,
			},
		},
		"emit.yaml": emitted(),
		"for.yaml":  checkups,
		"listen-to-all.yaml": {
			{mocks: arriving(warm, fast, fast, fever), output: `[{"bpm": 120}, {"temperature": 39}]`},
			{mocks: arriving(fever, calm), waits: true},
		},
		"listen-to-all read-envelope.yaml": {{
			mocks: `events:
  - {id: a, after: 1s, source: /a, type: com.fake-hospital.vitals.measurements.temperature, data: {temperature: 39}}
  - {id: b, after: 2s, source: /b, type: com.fake-hospital.vitals.measurements.bpm, data: {bpm: 59}}`,
			output: `[
				{"specversion": "1.0", "id": "a", "source": "/a", "time": "2026-01-01T00:00:01Z",
				 "type": "com.fake-hospital.vitals.measurements.temperature", "data": {"temperature": 39}},
				{"specversion": "1.0", "id": "b", "source": "/b", "time": "2026-01-01T00:00:02Z",
				 "type": "com.fake-hospital.vitals.measurements.bpm", "data": {"bpm": 59}}]`,
		}},
		"listen-to-any-filter.yaml": {{mocks: arriving(warm, calm, fast, fever), output: either}},
		"listen-to-any-forever-foreach.yaml": {{
			input: `{"roomId": "r1"}`,
			mocks: arriving(`{type: a, data: 1}`, `{type: b, data: 2}`) + `http: [{match: {url: "https://fake-chat-api.com/room/r1", body: {event: 1}}}, {match: {url: "https://fake-chat-api.com/room/r1", body: {event: 2}}}]`,
			waits: true,
			calls: []string{"POST https://fake-chat-api.com/room/r1", "POST https://fake-chat-api.com/room/r1"},
		}},
		"listen-to-any-until-condition.yaml": {
			{mocks: arriving(fever, calm, warm, fast, fever), output: `[{"temperature": 39}, {"bpm": 80}, {"temperature": 37}, {"bpm": 120}]`},
			{mocks: arriving(fever, calm, warm), waits: true},
		},
		"listen-to-any-until-consumed.yaml": {
			{mocks: arriving(fever, calm, fast, left, fast), output: `[{"temperature": 39}, {"bpm": 120}]`},
			{mocks: arriving(left), output: `[]`},
			{mocks: arriving(fever), waits: true},
		},
		"listen-to-any.yaml": {{mocks: arriving(calm, fever), output: `[{"bpm": 80}]`}},
		// The list of events replaces the input, so carId is empty.
		"listen-to-one.yaml": {{
			input: `{"carId": 4}`,
			mocks: arriving(`{type: com.virtual-wf-powered-race.events.race.started.v1}`) + `http: [{respond: {status: 202}}]`,
			calls: []string{"POST https://virtual-wf-powered-race.com/api/v4/cars//start"}, output: `null`,
		}},
		"dsl-reference/dsl-reference-10-emit-example.yaml":   emitted(),
		"dsl-reference/dsl-reference-11-for-example.yaml":    checkups,
		"dsl-reference/dsl-reference-13-listen-example.yaml": {{mocks: arriving(warm, calm, fast, fever), output: either}},
	}
}

// emitted is the run of an order's event.
func emitted() []example {
	return []example{{output: `{
		"specversion": "1.0", "id": "example/do/0/emitEvent", "time": "2026-01-01T00:00:00Z",
		"source": "https://petstore.com", "type": "com.petstore.order.placed.v1", "datacontenttype": "application/json",
		"data": {"client": {"firstName": "Cruella", "lastName": "de Vil"}, "items": [{"breed": "dalmatian", "quantity": 101}]}}`}}
}

// alarm is the race between a nurse and a doctor.
func alarm() []example {
	const nurse, doctor = `{match: {method: PUT, url: "*/alert/nurses", body: {patientId: Ada, room: 5}}, respond: {latency: 2s, body: {by: nurse}}}`,
		`{match: {method: PUT, url: "*/alert/doctor", body: {patientId: Ada, room: 5}}, respond: {latency: 1s, body: {by: doctor}}}`
	const input = `{"patient": {"fullName": "Ada"}, "room": {"number": 5}}`
	return []example{
		{input: input, mocks: `http: [` + nurse + `, ` + doctor + `]`, output: `{"by": "doctor"}`, elapsed: time.Second},
		{input: input, mocks: `http: [` + nurse + `, {respond: {status: 500}}]`, output: `{"by": "nurse"}`, elapsed: 2 * time.Second},
		{input: input, mocks: `http: [{respond: {status: 503}}]`, fault: "communication"},
	}
}

// retrying expects five retries after 3, 6, 12, 24 and 48 seconds, for failures with
// status 503 only.
func retrying() []example {
	const input = `{"petId": 7}`
	return []example{
		{
			input: input, output: `{"id": 7}`, elapsed: 9 * time.Second,
			mocks: `http: [{respond: [{status: 503}, {status: 503}, {body: {id: 7}}]}]`,
		},
		{
			input: input, output: `{"id": 7}`, elapsed: 93 * time.Second,
			mocks: `http: [{respond: [{status: 503}, {status: 503}, {status: 503}, {status: 503}, {status: 503}, {body: {id: 7}}]}]`,
		},
		{
			input: input, fault: "communication", at: "/do/0/tryGetPet/try/0/getPet", elapsed: 93 * time.Second,
			mocks: `http: [{respond: {status: 503}}]`,
		},
		{input: input, fault: "communication", mocks: `http: [{respond: {status: 404}}]`, calls: []string{"GET https://petstore.swagger.io/v2/pet/7"}},
	}
}

func flowExamples() map[string][]example {
	notImplemented := []example{{
		fault: "https://serverlessworkflow.io/errors/not-implemented", at: "/do/0/notImplemented",
		detail: "The workflow 'raise-not-implemented:0.1.0' is a work in progress and cannot be run yet",
	}}
	waited := []example{{input: `{"a": 1}`, output: `{"a": 1}`, elapsed: 30 * time.Second}}
	return map[string][]example{
		"for-inline-array.yaml": {{output: `{"processed": [
			{"name": "red", "hex": "#FF0000"}, {"name": "green", "hex": "#00FF00"}, {"name": "blue", "hex": "#0000FF"}]}`}},
		"fork.yaml":           alarm(),
		"raise-inline.yaml":   notImplemented,
		"raise-reusable.yaml": notImplemented,
		// The child's input is a string, not an expression.
		"run-subflow.yaml": {
			{
				with: `
document: {dsl: '1.0.3', namespace: test, name: register-customer, version: '0.1.0'}
do: [{register: {set: {registered: "${ .customer }"}}}]`,
				output: `{"registered": ".user"}`,
			},
			{fault: "configuration", detail: "register-customer", at: "/do/0/registerCustomer"},
		},
		"switch-then-string.yaml": {
			{input: `{"orderType": "electronic"}`, output: `{"validate": true, "status": "fulfilled"}`},
			{input: `{"orderType": "physical"}`, output: `{"inventory": "clear", "items": 1, "address": "Elmer St"}`},
			{input: `{"orderType": "other"}`, output: `{"log": "warn", "message": "something's wrong"}`},
		},
		"try-catch-retry-inline.yaml":   retrying(),
		"try-catch-retry-reusable.yaml": retrying(),
		"try-catch-then-directive.yaml": {
			{mocks: `http: [{respond: {body: {}}}]`, output: `{"status": "ok"}`},
			{mocks: `http: [{respond: {status: 503}}]`, output: `{"status": "failed"}`},
			{mocks: `http: [{respond: {status: 500}}]`, fault: "communication"},
		},
		// catch.do sets a string, not an expression; the pet is not bought.
		"try-catch-then.yaml": {
			{
				input: `{"petId": 7}`, mocks: `http: [{match: {method: GET}, respond: {status: 404}}]`,
				output: `{"error": "$error"}`, calls: []string{"GET https://petstore.swagger.io/v2/pet/7"},
			},
			{
				input:  `{"petId": 7}`,
				mocks:  `http: [{match: {method: GET}, respond: {body: {petId: 7}}}, {match: {method: PUT, url: "*/pet/7", body: {petId: 7, status: sold}}, respond: {body: {ok: true}}}]`,
				output: `{"ok": true}`,
			},
		},
		"try-catch.yaml": {
			{input: `{"petId": 7}`, mocks: `http: [{respond: {status: 404}}]`, output: `{"petId": 7}`},
			{input: `{"petId": 7}`, mocks: `http: [{respond: {body: {id: 7}}}]`, output: `{"id": 7}`},
			{input: `{"petId": 7}`, mocks: `http: [{respond: {status: 500}}]`, fault: "communication", at: "/do/0/tryGetPet/try/0/getPet"},
		},
		"wait-duration-inline.yaml":  waited,
		"wait-duration-iso8601.yaml": waited,
	}
}

func referenceExamples() map[string][]example {
	const tickets = "https://fake-ticketing-system.com/tickets/"
	accepted := `http: [{respond: {status: 202}}]`
	pets := httpExamples()["call-openapi.yaml"]
	return map[string][]example{
		"dsl-reference/dsl-reference-02-call-example.yaml":    rex(),
		"dsl-reference/dsl-reference-05-http-example.yaml":    rex(),
		"dsl-reference/dsl-reference-06-openapi-example.yaml": pets,
		"dsl-reference/dsl-reference-12-fork-example.yaml":    alarm(),
		// A ticket goes through all tasks below the one it enters at; an empty response has no
		// ticket.
		"dsl-reference/dsl-reference-14-raise-example.yaml": {
			{input: `{"ticket": {"id": 1, "priority": "none"}}`, fault: "https://fake.com/errors/tickets/undefined-priority", at: "/raiseUndefinedPriorityError"},
			{
				input: `{"ticket": {"id": 1, "priority": "high"}}`, mocks: accepted, output: "null",
				calls: []string{"POST " + tickets + "escalate", "POST " + tickets + "assign", "POST " + tickets + "resolve"},
			},
			{
				input: `{"ticket": {"id": 1, "priority": "low"}}`, output: "null", calls: []string{"POST " + tickets + "resolve"},
				mocks: `http: [{match: {body: {ticketId: 1}}, respond: {status: 202}}]`,
			},
		},
		"dsl-reference/dsl-reference-19-run-workflow-example.yaml": {{
			with: `
document: {dsl: '1.0.3', namespace: another-one, name: do-stuff, version: '0.1.0'}
do: [{echo: {set: "${ . + {done: true} }"}}]`,
			output: `{"foo": "bar", "done": true}`,
		}},
		// The second task sees the first one's output only.
		"dsl-reference/dsl-reference-20-set-example.yaml": {{input: `{"configuration": {"size": 1, "fill": "red", "color": "blue"}}`, output: `null`}},
		"dsl-reference/dsl-reference-21-switch-example.yaml": {
			{
				input: `{"orderType": "electronic"}`, mocks: accepted, output: "null",
				calls: []string{"POST https://fake-payment-service.com/validate", "POST https://fake-fulfillment-service.com/fulfill"},
			},
			{
				input: `{"orderType": "physical"}`, mocks: accepted, output: "null",
				calls: []string{
					"GET https://fake-inventory-service.com/inventory", "POST https://fake-packaging-service.com/pack",
					"POST https://fake-shipping-service.com/schedule",
				},
			},
			{
				mocks: accepted, output: "null",
				calls: []string{"POST https://fake-logging-service.com/warn", "POST https://fake-notification-service.com/notify"},
			},
		},
		// The endpoint names no host: an error in the document, not a communication error.
		"dsl-reference/dsl-reference-22-try-example.yaml":  {{fault: "configuration", at: "/do/0/trySomething/try/0/invalidHttpCall"}},
		"dsl-reference/dsl-reference-23-wait-example.yaml": {{input: `[1]`, output: `[1]`, elapsed: 10 * time.Second}},
		"dsl-reference/dsl-reference-24-authentication-example.yaml": {
			{
				secrets: `{"usernamePasswordSecret": {"username": "ada", "password": "x"}}`, output: `{}`,
				mocks: `http: [{match: {headers: {Authorization: Basic YWRhOng=}}, respond: {body: {}}}]`,
			},
			{fault: "authorization", detail: "usernamePasswordSecret", at: "/do/0/sampleTask"},
		},
		"dsl-reference/dsl-reference-25-basic-authentication-example.yaml": {{
			mocks: `http: [{match: {headers: {Authorization: Basic YWRtaW46cGFzc3dvcmQxMjM=}}, respond: {body: {}}}]`, output: `{}`,
		}},
		"dsl-reference/dsl-reference-26-bearer-authentication-example.yaml": {{
			input: `{"user": {"token": "abc"}}`, output: `{}`,
			mocks: `http: [{match: {headers: {Authorization: Bearer abc}}, respond: {body: {}}}]`,
		}},
		"dsl-reference/dsl-reference-33-timeout-example.yaml": {{fault: "timeout", elapsed: 30 * time.Second}},
	}
}

// petstore is the part of the pet store's description that the examples use.
const petstore = `{"swagger":"2.0","info":{"title":"pets","version":"1"},"host":"petstore.swagger.io","basePath":"/v2","schemes":["https"],
"paths":{
"/pet/findByStatus":{"get":{"operationId":"findPetsByStatus","produces":["application/json"],
 "parameters":[{"name":"status","in":"query","required":true,"type":"array","items":{"type":"string"},"collectionFormat":"multi"}],
 "responses":{"200":{"description":"ok"}}}},
"/pet/{petId}":{"get":{"operationId":"getPetById","produces":["application/json"],
 "parameters":[{"name":"petId","in":"path","required":true,"type":"integer","format":"int64"}],
 "responses":{"200":{"description":"ok"}}}}}}`
