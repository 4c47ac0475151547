package dsl

// Limits of a document. Each is far above what people write, and low enough that a hostile
// document is rejected in well under a second.
const (
	// MaxSize is the size of a document's text in bytes.
	MaxSize = 1 << 20
	// MaxDepth is the nesting depth of lists and maps.
	MaxDepth = 100
	// MaxNodes is the number of values in a document, including those that aliases repeat.
	MaxNodes = 50_000
	// MaxKeys is the number of keys of one map.
	MaxKeys = 10_000
	// MaxAliases is the number of YAML aliases (*name) in a document.
	MaxAliases = 1_000
	// MaxDigits is the length of a whole number.
	MaxDigits = 400
	// MaxCompiled is the size of all expressions in bytes. Those of shared policies count
	// once per use.
	MaxCompiled = 2 << 20
	// MaxMistakes is the number of mistakes, and of warnings, reported for one document.
	MaxMistakes = 200
)
