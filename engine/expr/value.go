package expr

import "errors"

// Value is a part of a workflow document that stands for data: a literal, an
// expression, or an object or list with expressions somewhere inside.
// The zero Value is the literal null; a nil *Value means "not written".
type Value struct {
	literal any
	program *Program
	fields  []Field
	items   []*Value
	kind    kind
	loose   bool // text that fails to evaluate stands for itself, as literal
}

// Field is one member of an object Value, in the order of the document.
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

// Literal is data without expressions. The caller must not change v afterwards.
func Literal(v any) *Value { return &Value{literal: v} }

// Computed is a Value that a program yields.
func Computed(p *Program) *Value { return &Value{kind: programKind, program: p} }

// Loose is a Value that a program yields, and the text itself where the program fails.
func Loose(p *Program, text string) *Value {
	return &Value{kind: programKind, program: p, literal: text, loose: true}
}

// Object joins fields to one Value, a literal if all of them are.
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

// List joins items to one Value, a literal if all of them are.
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

// Constant gives the data of a Value without expressions.
func (v *Value) Constant() (data any, ok bool) { return v.literal, v.kind == literalKind }

// Fields are the members of an object Value with expressions inside, else nil.
func (v *Value) Fields() []Field { return v.fields }

// Program is the expression of a Value that is one expression, else nil.
func (v *Value) Program() *Program { return v.program }

// Eval yields the data: literals as they stand, expressions evaluated in s.
// The result may share structure with the document and with s: it is not to be changed.
func (v *Value) Eval(s *Scope) (any, error) {
	switch v.kind {
	case programKind:
		data, err := v.program.Eval(s)
		if v.loose && err != nil {
			return v.itself(err)
		}
		return data, err
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

// itself is the text of a loose Value whose program fails.
func (v *Value) itself(err error) (any, error) {
	if failure := (*Failure)(nil); errors.As(err, &failure) {
		return v.literal, nil
	}
	return nil, err
}

// Programs yields the programs inside, in the order of the document.
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
