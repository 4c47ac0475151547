// Package dsl parses workflow documents, in YAML or JSON, into validated Definitions. For
// an invalid document it reports every mistake with its position and a suggested
// correction.
package dsl
