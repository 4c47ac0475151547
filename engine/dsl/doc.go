// Package dsl turns a workflow document, in YAML or JSON, into a checked
// Definition, or says all that is wrong with it: where, and what to write instead.
package dsl
