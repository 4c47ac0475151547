package lua

import (
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// openLibraries builds the globals that Redis provides to scripts, without those that load code.
// All are read-only, so a script cannot leave anything behind in the state.
func (r *Runner) openLibraries() {
	l := r.state
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
	}
	base := l.G.Global
	r.globals = l.NewTable()
	for _, name := range []string{
		"assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal",
		"rawget", "select", "setmetatable", "type", "unpack", "xpcall", "_VERSION",
	} {
		r.globals.RawSetString(name, base.RawGetString(name))
	}
	l.SetFuncs(r.globals, map[string]lua.LGFunction{
		"pcall": luaPCall, "rawset": r.rawSet, "tonumber": luaToNumber, "tostring": luaToString, concatOperand: formatOperand,
	})
	math := library(base, "math")
	for _, name := range []string{"random", "randomseed"} { // those of gopher-lua depend on other scripts
		math.RawSetString(name, lua.LNil)
	}
	text := library(base, "string")
	text.RawSetString("dump", lua.LNil)
	text.RawSetString("__metatable", lua.LFalse)
	r.globals.RawSetString("math", r.readOnly(math))
	r.globals.RawSetString("string", r.readOnly(text))
	r.globals.RawSetString("table", r.readOnly(library(base, "table")))
	r.globals.RawSetString("redis", r.readOnly(r.luaRedis()))
	r.globals.RawSetString("cjson", r.readOnly(r.luaJSON()))
	missing := l.NewTable()
	missing.RawSetString("__index", l.NewFunction(r.missingGlobal))
	r.globals.Metatable = missing
	env := r.readOnly(r.globals)
	r.globals.RawSetString("_G", env)
	l.Env = env
	l.G.Global = env
}

// readOnly returns a table that gives read-only access to another.
func (r *Runner) readOnly(table *lua.LTable) *lua.LTable {
	meta := r.state.NewTable()
	meta.RawSetString("__index", table)
	meta.RawSetString("__newindex", r.state.NewFunction(r.refuseWrite))
	meta.RawSetString("__metatable", lua.LFalse)
	guard := r.state.NewTable()
	guard.Metatable = meta
	r.locked[guard] = true
	return guard
}

// refuseWrite raises the error for an assignment to a global or a library.
func (*Runner) refuseWrite(l *lua.LState) int {
	l.RaiseError("Attempt to modify a readonly table")
	return 0
}

// missingGlobal raises the error for reading an undefined global.
func (*Runner) missingGlobal(l *lua.LState) int {
	l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.Get(2).String())
	return 0
}

// rawSet implements rawset, which respects read-only tables.
func (r *Runner) rawSet(l *lua.LState) int {
	table := l.CheckTable(1)
	if r.locked[table] {
		r.fail(l, "ERR Attempt to modify a readonly table")
	}
	l.RawSet(table, l.CheckAny(2), l.CheckAny(3))
	l.SetTop(1)
	return 1
}

// luaPCall implements pcall. As in Redis, the error of a command arrives as its message.
func luaPCall(l *lua.LState) int {
	l.CheckAny(1)
	err := l.PCall(l.GetTop()-1, lua.MultRet, nil)
	if err == nil {
		l.Insert(lua.LTrue, 1)
		return l.GetTop()
	}
	failure, ok := err.(*lua.ApiError) //nolint:errorlint // PCall returns nothing else, unwrapped
	if !ok || failure.Type == lua.ApiErrorPanic {
		panic(err)
	}
	l.SetTop(0)
	l.Push(lua.LFalse)
	l.Push(failure.Object)
	if table, ok := failure.Object.(*lua.LTable); ok {
		if text, ok := table.RawGetString("err").(lua.LString); ok {
			l.SetTop(1)
			l.Push(text)
		}
	}
	return 2
}

// luaToString implements tostring, with numbers formatted as in C Lua.
func luaToString(l *lua.LState) int {
	if number, ok := l.CheckAny(1).(lua.LNumber); ok {
		l.Push(lua.LString(Number(float64(number), written)))
		return 1
	}
	l.Push(l.ToStringMeta(l.Get(1)))
	return 1
}

// luaToNumber implements tonumber; gopher-lua's own reads "010" as octal.
func luaToNumber(l *lua.LState) int {
	base := l.OptInt(2, 10)
	switch value := l.CheckAny(1).(type) {
	case lua.LNumber:
		l.Push(value)
	case lua.LString:
		l.Push(luaParse(strings.ToLower(strings.TrimSpace(string(value))), base))
	default:
		l.Push(lua.LNil)
	}
	return 1
}

// luaParse parses a number; it returns LNil if text is not a number.
func luaParse(text string, base int) lua.LValue {
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+")
	if hex, ok := strings.CutPrefix(digits, "0x"); ok && (base == 10 || base == 16) {
		text, base = strings.TrimSuffix(text, digits)+hex, 16
	}
	if base != 10 {
		if n, err := strconv.ParseInt(text, base, 64); err == nil {
			return lua.LNumber(n)
		}
		return lua.LNil
	}
	if strings.ContainsAny(text, "_px") {
		return lua.LNil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return lua.LNumber(f)
	}
	return lua.LNil
}

// library returns one of the libraries that gopher-lua has opened.
func library(base *lua.LTable, name string) *lua.LTable {
	table, ok := base.RawGetString(name).(*lua.LTable)
	if !ok {
		panic("lua: there is no library " + name)
	}
	return table
}
