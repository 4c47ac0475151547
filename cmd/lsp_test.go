package cmd_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lspDocument is edited in neovim. The client is the one that the help shows.
const lspDocument = `document: {dsl: '1.0.3', namespace: demo, name: order, version: '0.1.0'}
use:
  timeouts: {short: {after: PT10S}}
do:
  - pay:
     call:  http
     with:
       method: fetch
       endpoint: https://pay.example/charges
     timeout: short
     then: packed
  - packed:
      wait: P1D
`

// lspSession drives neovim's own client, and writes what it answers.
const lspSession = `
local function run()
  vim.cmd('edit order.yaml')
  local out = {}
  local function say(what, value) table.insert(out, what .. ': ' .. value) end
  local function found(severity) -- that of the first diagnostic
    local function first() return (vim.diagnostic.get(0)[1] or {}).severity end
    if not vim.wait(20000, function() return first() == severity end, 20) then error('no diagnostic ' .. severity) end
  end
  local function request(method, line, column)
    vim.api.nvim_win_set_cursor(0, {line, column})
    local params = vim.lsp.util.make_position_params()
    params.options = {tabSize = 2, insertSpaces = true}
    local answers = vim.lsp.buf_request_sync(0, method, params, 20000)
    for _, answer in pairs(answers or {}) do return answer.result end
  end
  local function labels(items)
    local names = {}
    for _, item in ipairs(items or {}) do table.insert(names, item.label) end
    return table.concat(names, ' ')
  end

  found(2)
  for _, d in ipairs(vim.diagnostic.get(0)) do
    say('diagnostic', d.lnum .. ':' .. d.col .. '-' .. d.end_col .. ' ' .. d.severity .. ' ' .. d.code .. ' ' .. d.message)
  end
  say('keys', labels(request('textDocument/completion', 8, 7)))
  say('tasks', labels(request('textDocument/completion', 11, 11)))
  say('hover', request('textDocument/hover', 6, 7).contents.value)
  say('definition', request('textDocument/definition', 10, 15).range.start.line)
  vim.api.nvim_win_set_cursor(0, {11, 12})
  vim.lsp.buf.definition()
  vim.wait(20000, function() return vim.api.nvim_win_get_cursor(0)[1] == 12 end, 20)
  say('cursor', vim.api.nvim_win_get_cursor(0)[1])
  for _, s in ipairs(request('textDocument/documentSymbol', 1, 0)) do say('symbol', s.name .. ' ' .. s.detail) end

  vim.api.nvim_buf_set_lines(0, 12, 13, false, {'      wait: P1D', '      zork: 1'})
  found(1)
  for _, d in ipairs(vim.diagnostic.get(0, {severity = 1})) do say('error', d.lnum .. ' ' .. d.message) end
  vim.api.nvim_buf_set_lines(0, 13, 14, false, {})
  found(2)
  local format = vim.lsp.buf.format or vim.lsp.buf.formatting_sync -- before neovim 0.8
  format()
  say('formatted', table.concat(vim.api.nvim_buf_get_lines(0, 4, 7, false), '|'))

  vim.o.hidden = true -- the workflow stays unsaved
  vim.cmd('edit order.test.yaml')
  vim.api.nvim_buf_set_lines(0, 0, -1, false, {'workflow: order.yaml', 'tests:', '  - name: ships', '    expect: {tasks: [shipped]}'})
  local test, unknown = vim.api.nvim_get_current_buf(), nil
  vim.wait(20000, function()
    local first = vim.diagnostic.get(test)[1] or {message = ''}
    unknown = first.message:match('^no task %S+')
    return unknown
  end, 20)
  say('test', unknown or 'no mistake')
  vim.cmd('buffer order.yaml')
  vim.api.nvim_buf_set_lines(0, -1, -1, false, {'  - shipped: {set: {n: 1}}'})
  if not vim.wait(20000, function() return #vim.diagnostic.get(test) == 0 end, 20) then error('the test was not checked again') end
  vim.fn.writefile(out, 'out')
end
local ok, err = pcall(run)
if not ok then vim.fn.writefile({'failed: ' .. tostring(err)}, 'out') end
vim.cmd('qall!')
`

// lspStart is vim.lsp.start for neovim before 0.8, which Debian has.
const lspStart = `
local client
vim.lsp.start = vim.lsp.start or function(config)
  client = client or vim.lsp.start_client(config)
  vim.lsp.buf_attach_client(0, client)
end
`

const lspWanted = `diagnostic: 7:15-20 2 http-method HTTP has no method "fetch"
did you mean "GET"?
keys: method headers body query output redirect
tasks: pay packed continue exit end
hover: Calls a service by http, openapi, grpc, asyncapi, a2a or mcp, or a function of use.functions by its name. flunq runs http, openapi and functions.

For example: ` + "`http`, `openapi`" + `
definition: 2
cursor: 12
symbol: pay call
symbol: packed wait
error: 13 unknown key "zork" in task "packed"
did you mean "fork"?
formatted:   - pay:|      call: http|      with:
test: no task "shipped"
`

// Neovim with the configuration of the help shows mistakes, completes, explains, goes to
// definitions, lists tasks and formats.
func TestLanguageServerInNeovim(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nvim"); err != nil {
		if os.Getenv("FLUNQ_REQUIRE_NVIM") == "1" {
			t.Fatal("there is no nvim")
		}
		t.Skip("there is no nvim")
	}
	folder := t.TempDir()
	b := block{}
	help := b.command(t, folder, "flunq help lsp")
	_, config, _ := strings.Cut(help, "nvim/init.lua:\n")
	config, _, found := strings.Cut(config, "\nHelix")
	if !found {
		t.Fatalf("no configuration in\n%s", help)
	}
	b.write(t, filepath.Join(folder, "order.yaml"), strings.TrimSuffix(lspDocument, "\n"))
	b.write(t, filepath.Join(folder, "init.lua"), lspStart+config)
	b.write(t, filepath.Join(folder, "session.lua"), lspSession)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, "nvim", "--headless", "-n", "-i", "NONE", "-u", "init.lua", "-c", "luafile session.lua")
	c.Dir = folder
	c.Env = append(os.Environ(), "HOME="+folder, "XDG_CONFIG_HOME="+folder, "XDG_STATE_HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CACHE_HOME="+folder)
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	out, err := os.ReadFile(filepath.Join(folder, "out"))
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	// Neovim writes a line break within a line as a NUL.
	if got := strings.ReplaceAll(string(out), "\x00", "\n"); got != lspWanted {
		t.Errorf("got\n%s\nwant\n%s\nneovim says\n%s", got, lspWanted, said.String())
	}
}
