package schema

// Keywords returns the keywords of JSON Schema, of draft 7 and of 2020-12.
func Keywords() []string {
	return []string{
		"$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "$comment", "$defs", "definitions",
		"type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
		"maxLength", "minLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema",
		"items", "prefixItems", "additionalItems", "maxItems", "minItems", "uniqueItems", "contains", "maxContains", "minContains",
		"unevaluatedItems", "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames",
		"maxProperties", "minProperties", "required", "dependentRequired", "dependentSchemas", "dependencies",
		"allOf", "anyOf", "oneOf", "not", "if", "then", "else",
		"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
	}
}

// Formats returns the formats that Validate checks.
func Formats() []string {
	return []string{
		"date", "date-time", "time", "duration", "period", "email", "hostname", "ipv4", "ipv6",
		"uri", "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex", "semver",
	}
}
