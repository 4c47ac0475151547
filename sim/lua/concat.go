package lua

import (
	"reflect"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// concatOperand is the global function that formats the operands of the .. operator. No script can
// name it.
const concatOperand = "concat operand"

// formatConcat makes each .. in a syntax tree format numbers as C Lua does, with 14 digits: gopher-lua
// would write all of them, and so hide that a script loses some.
func formatConcat(tree reflect.Value) {
	switch tree.Kind() {
	case reflect.Interface, reflect.Pointer:
		if tree.IsNil() {
			return
		}
		if concat, ok := reflect.TypeAssert[*ast.StringConcatOpExpr](tree); ok {
			formatConcat(reflect.ValueOf(concat).Elem())
			concat.Lhs, concat.Rhs = formattedOperand(concat.Lhs), formattedOperand(concat.Rhs)
			return
		}
		formatConcat(tree.Elem())
	case reflect.Slice:
		for i := range tree.Len() {
			formatConcat(tree.Index(i))
		}
	case reflect.Struct:
		for i := range tree.NumField() {
			if tree.Type().Field(i).IsExported() {
				formatConcat(tree.Field(i))
			}
		}
	default:
	}
}

// formattedOperand returns an operand, in a call of concatOperand unless it is certainly a string.
func formattedOperand(operand ast.Expr) ast.Expr {
	switch operand.(type) {
	case *ast.StringExpr, *ast.StringConcatOpExpr:
		return operand
	}
	name := &ast.IdentExpr{Value: concatOperand}
	call := &ast.FuncCallExpr{Func: name, Args: []ast.Expr{operand}, AdjustRet: true}
	for _, e := range []ast.Expr{name, call} {
		e.SetLine(operand.Line())
		e.SetLastLine(operand.LastLine())
	}
	return call
}

// formatOperand is the function concatOperand. It returns all but numbers unchanged.
func formatOperand(l *lua.LState) int {
	if number, ok := l.Get(1).(lua.LNumber); ok {
		l.Push(lua.LString(Number(float64(number), written)))
		return 1
	}
	l.SetTop(1)
	return 1
}
