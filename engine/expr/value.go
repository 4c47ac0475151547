package expr

// Value is data in a workflow document: a literal, an expression, or an object or list
// that contains expressions. The zero Value is the literal null; a nil *Value is absent
// from the document.
type Value struct {
	literal any
	program *Program
	fields  []Field
	items   []*Value
	kind    kind
}

// Field is one member of an object Value, in document order.
type Field struct {
	Key   string
	Value *Value
}

type kind int

const (
	literalKind kind = iota
	programKind
	objectKind
	listKind
)

// Literal returns data without expressions. The caller must not modify v afterwards.
func Literal(v any) *Value { return &Value{literal: v} }

// Computed returns a Value that is computed by a program.
func Computed(p *Program) *Value { return &Value{kind: programKind, program: p} }

// Object returns an object Value of fields, a literal if all of them are.
func Object(fields []Field) *Value {
	literal := make(map[string]any, len(fields))
	for _, f := range fields {
		if f.Value.kind != literalKind {
			return &Value{kind: objectKind, fields: fields}
		}
		literal[f.Key] = f.Value.literal
	}
	return Literal(literal)
}

// List returns a list Value of items, a literal if all of them are.
func List(items []*Value) *Value {
	literal := make([]any, len(items))
	for i, item := range items {
		if item.kind != literalKind {
			return &Value{kind: listKind, items: items}
		}
		literal[i] = item.literal
	}
	return Literal(literal)
}

// Constant returns the data of a Value without expressions.
func (v *Value) Constant() (data any, ok bool) { return v.literal, v.kind == literalKind }

// Fields returns the members of an object Value that contains expressions, otherwise nil.
func (v *Value) Fields() []Field { return v.fields }

// Program returns the program of a Value that is one expression, otherwise nil.
func (v *Value) Program() *Program { return v.program }

// Eval returns the data, with expressions evaluated in s. The result may share structure with the
// document and with s, and must not be modified.
func (v *Value) Eval(s *Scope) (any, error) {
	switch v.kind {
	case programKind:
		return v.program.Eval(s)
	case objectKind:
		out := make(map[string]any, len(v.fields))
		for _, f := range v.fields {
			data, err := f.Value.Eval(s)
			if err != nil {
				return nil, err
			}
			out[f.Key] = data
		}
		return out, nil
	case listKind:
		out := make([]any, len(v.items))
		for i, item := range v.items {
			data, err := item.Eval(s)
			if err != nil {
				return nil, err
			}
			out[i] = data
		}
		return out, nil
	default:
		return v.literal, nil
	}
}

// Programs yields the programs inside, in document order.
func (v *Value) Programs(yield func(*Program) bool) { v.programs(yield) }

func (v *Value) programs(yield func(*Program) bool) bool {
	if v == nil {
		return true
	}
	if v.program != nil && !yield(v.program) {
		return false
	}
	for _, f := range v.fields {
		if !f.Value.programs(yield) {
			return false
		}
	}
	for _, item := range v.items {
		if !item.programs(yield) {
			return false
		}
	}
	return true
}
