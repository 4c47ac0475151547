package lua

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// luaJSON returns the table cjson. It writes objects in insertion order; the order in Redis
// depends on hashes, so no script may rely on either.
func (r *Runner) luaJSON() *lua.LTable {
	null := r.state.NewUserData()
	table := r.state.SetFuncs(r.state.NewTable(), map[string]lua.LGFunction{
		"encode": func(l *lua.LState) int {
			var out strings.Builder
			if err := jsonFromLua(&out, l.CheckAny(1), null, 0); err != nil {
				l.RaiseError("%s", err.Error())
			}
			l.Push(lua.LString(out.String()))
			return 1
		},
		"decode": func(l *lua.LState) int {
			decoder := json.NewDecoder(strings.NewReader(l.CheckString(1)))
			value, err := luaFromJSON(l, decoder, null)
			if err == nil && decoder.More() {
				err = fmt.Errorf("Expected the end but found invalid token at character %d", decoder.InputOffset()+1)
			}
			if err != nil {
				l.RaiseError("%s", err.Error())
			}
			l.Push(value)
			return 1
		},
	})
	table.RawSetString("null", null)
	return table
}

// jsonFromLua writes a value like cjson.encode.
func jsonFromLua(out *strings.Builder, value lua.LValue, null *lua.LUserData, depth int) error {
	if depth > 1000 {
		return fmt.Errorf("Cannot serialise, excessive depth (%d)", depth)
	}
	switch value := value.(type) {
	case *lua.LNilType:
		out.WriteString("null")
	case lua.LBool:
		out.WriteString(strconv.FormatBool(bool(value)))
	case lua.LNumber:
		if f := float64(value); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("Cannot serialise number: must not be NaN or Inf") //nolint:perfsprint // the message of cjson
		}
		out.WriteString(Number(float64(value), written))
	case lua.LString:
		jsonString(out, string(value))
	case *lua.LTable:
		return jsonTable(out, value, null, depth)
	default:
		if value != null {
			return fmt.Errorf("Cannot serialise %s: type not supported", value.Type())
		}
		out.WriteString("null")
	}
	return nil
}

// jsonTable writes an array when all keys are positive integers, else an object.
func jsonTable(out *strings.Builder, table *lua.LTable, null *lua.LUserData, depth int) error {
	size, err := jsonArraySize(table)
	if err != nil {
		return err
	}
	if size > 0 {
		for i := range size {
			out.WriteByte("[,"[min(i, 1)])
			if err := jsonFromLua(out, table.RawGetInt(i+1), null, depth+1); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	}
	separator := byte('{')
	for key, value := table.Next(lua.LNil); key != lua.LNil; key, value = table.Next(key) {
		out.WriteByte(separator)
		separator = ','
		switch key := key.(type) {
		case lua.LString:
			jsonString(out, string(key))
		case lua.LNumber:
			jsonString(out, Number(float64(key), written))
		default:
			return fmt.Errorf("Cannot serialise %s: table key must be a number or string", key.Type())
		}
		out.WriteByte(':')
		if err := jsonFromLua(out, value, null, depth+1); err != nil {
			return err
		}
	}
	if separator == '{' {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return nil
}

// jsonArraySize returns the highest index of an array, or 0 for an object.
func jsonArraySize(table *lua.LTable) (int, error) {
	highest, items := 0, 0
	for key, _ := table.Next(lua.LNil); key != lua.LNil; key, _ = table.Next(key) {
		index, ok := key.(lua.LNumber)
		if !ok || index < 1 || float64(index) != math.Trunc(float64(index)) {
			return 0, nil
		}
		highest = max(highest, int(index))
		items++
	}
	if highest > 10 && highest > 2*items {
		return 0, fmt.Errorf("Cannot serialise table: excessively sparse array") //nolint:perfsprint // the message of cjson
	}
	return highest, nil
}

// jsonString writes a string with the escapes that cjson uses.
func jsonString(out *strings.Builder, text string) {
	out.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; c {
		case '"', '\\', '/':
			out.WriteByte('\\')
			out.WriteByte(c)
		case '\b', '\t', '\n', '\f', '\r':
			out.WriteByte('\\')
			out.WriteByte("btn?fr"[c-'\b'])
		default:
			if c < ' ' || c == 127 {
				fmt.Fprintf(out, "\\u%04x", c)
				continue
			}
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
}

// luaFromJSON reads the next value, with fields in document order.
func luaFromJSON(l *lua.LState, decoder *json.Decoder, null *lua.LUserData) (lua.LValue, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, jsonProblem(decoder, err)
	}
	switch token := token.(type) {
	case bool:
		return lua.LBool(token), nil
	case float64:
		return lua.LNumber(token), nil
	case string:
		return lua.LString(token), nil
	case json.Delim:
		table := l.NewTable()
		for decoder.More() {
			if err := jsonElement(l, decoder, null, table, token); err != nil {
				return nil, err
			}
		}
		if _, err := decoder.Token(); err != nil {
			return nil, jsonProblem(decoder, err)
		}
		return table, nil
	default:
		return null, nil
	}
}

// jsonElement reads one element of an array or one field of an object into table.
func jsonElement(l *lua.LState, decoder *json.Decoder, null *lua.LUserData, table *lua.LTable, open json.Delim) error {
	var key lua.LValue
	if open == '{' {
		var err error
		if key, err = luaFromJSON(l, decoder, null); err != nil {
			return err
		}
	}
	value, err := luaFromJSON(l, decoder, null)
	if err != nil {
		return err
	}
	if open == '{' {
		table.RawSet(key, value)
		return nil
	}
	table.Append(value)
	return nil
}

// jsonProblem returns an error that says where a text is not JSON.
func jsonProblem(decoder *json.Decoder, err error) error {
	return fmt.Errorf("Expected value but found invalid token at character %d: %w", decoder.InputOffset()+1, err)
}
