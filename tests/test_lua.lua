-- test_lua.lua: examples/lua/miras.lua over the shared library of examples/shared:
--   LD_LIBRARY_PATH=FOLDER luajit tests/test_lua.lua FOLDER
-- Prints what is wrong; the status is the number of those.
package.path = "examples/lua/?.lua;" .. package.path
local miras = require "miras"
local ffi = require "ffi"
local path = arg[1] .. "/\195\169t\195\169.memory"
local wrong = 0
local floats = ffi.typeof "float[?]"

local function expect(right, what)
  if right then return end
  wrong = wrong + 1
  print(what)
end
local function near(a, b, by) return math.abs(a - b) < (by or 1e-3) end
local function refused(words, call, ...)
  local ok, sentence = pcall(call, ...)
  expect(not ok and sentence:find(words, 1, true), tostring(sentence))
end

local m = miras.memory("deltanet", {key_dim = 3, value_dim = 2, heads = 2})
local key, value = ffi.new("float[6]", {1, 0, 0, 0, 1, 0}), {0.5, -2, 3, 4}
expect(near(m:write(key, value), (0.25 + 4 + 9 + 16) / 4), "the first surprise")
for _ = 1, 10 do m:write(key, value) end
local state = m:state()
local answer, surprise = m:learn(key, {9, 9, 9, 9})
expect(near(answer[1], -2) and near(answer[3], 4) and surprise > 10, "learn answers first")
expect(near(m:read(key)[1], 9, 1), "and then learns")
m:state(state)
expect(near(m:read(key, answer)[1], -2) and m:position() == 11, "rolled back")
refused("the key has 2 numbers; 6 are wanted", m.write, m, {1, 2}, value)
refused("the answer has 3 numbers; 4", m.read, m, key, floats(3))
refused("type ctype<float [3]>; a table or a float array of 4", m.read, m, key, ffi.new "float[3]")
refused("type ctype<double [6]>; a table", m.read, m, ffi.new "double[6]")
refused("type ctype<double [3]>; a table", m.read, m, ffi.new "double[3]")
refused("the value is of type nil; a table or a float array of 4", m.write, m, key)
refused("the value is of type string; a table", m.write, m, key, "abc")
refused("the value holds what is no number", m.write, m, key, {1, 2, 3, "abc"})
refused("a colon: m:read(..)", m.write, key, value)
refused("a colon: m:read(..)", m.close)
refused("the state has 2 bytes", m.state, m, "ab")
refused("the state is of type number", m.state, m, 5)
refused("bias is cross-entropy", m.probabilities, m, answer)
refused("elapsed is 2.5; it must not", m.learn, m, key, value, 2.5)   -- it has no decay
refused("elapsed is no number", m.learn, m, key, value, "a")
expect(near(m:read(key)[1], -2) and m:position() == 11, "as before all that was refused")
m:save(path)
m:reset()
expect(near(m:read(key)[1], 0), "reset")
m:load(path)
expect(near(m:read(key)[1], -2), "loaded")
expect(near(miras.open(path):read(key)[2], 3), "opened")
local wider = miras.memory("deltanet", {key_dim = 4, value_dim = 2, heads = 2})
refused(path .. ": key_dim", wider.load, wider, path)
os.remove(path)
refused(path .. ": a file could not", miras.open, path)
refused(path .. "/a: a file could not", m.save, m, path .. "/a")
refused("the path is of type nil", miras.open)
refused("the preset is of type nil", miras.memory)
refused("no preset yad; is it yaad?", miras.memory, "yad", {})
refused("key_dim is 0", miras.memory, "yaad")
refused("the fields are of type string", miras.memory, "yaad", "abc")
refused("no field lerning_rate; is it learning_rate?", miras.memory, "yaad", {lerning_rate = 1})
refused("files have no field seed", miras.memory, "yaad", {seed = 1})
refused("files have no field 1", miras.memory, "yaad", {4})
refused('bias cannot be "l3"; it can be dot', miras.memory, "yaad", {bias = "l3"})
refused("groups has 32 characters; it must", miras.memory, "yaad", {groups = ("1"):rep(32)})
local by_tokens = miras.memory("rwkv7", {key_dim = 1, value_dim = 1})
refused("comes with tokens", by_tokens.write, by_tokens, {1}, {1})
local twice = miras.memory("deltaproduct", {key_dim = 1, value_dim = 1})
refused("inner_steps is not 1", twice.learn, twice, {1}, {1})
local at, caller = debug.getinfo(1, "l").currentline + 1, select(2, pcall(function()
  m:write(key) end))
expect(caller:find("test_lua.lua:" .. at .. ":", 1, true), "not at the caller: " .. caller)

local c = miras.memory("categories", {key_dim = 2, value_dim = 3})
for _ = 1, 50 do c:write({1, 0}, {0, 1, 0}) end
local p = c:probabilities(c:read {1, 0})
expect(p[1] > 0.8 and near(p[0] + p[1] + p[2], 1), "probabilities")

-- Memories of 1 MB are given back, by the collector and by close, while another is at work.
for i = 1, 1000 do
  local large = miras.memory("deltanet", {key_dim = 512, value_dim = 512})
  if i % 2 == 0 then large:close() elseif i % 10 == 1 then collectgarbage() end
  if i == 2 then
    large:close()   -- once more does nothing
    refused("the memory is closed", large.write, large, floats(512), floats(512))
    for _, call in ipairs {"state", "reset", "position", "save", "load", "read"} do
      refused("the memory is closed", large[call], large, path)
    end
  end
end
collectgarbage()
local file = io.open "/proc/self/statm"
if file then expect(file:read "*n" < 65536, "more than 256 MB are still held") end
expect(near(m:read(key)[1], -2), "after all of these")

-- Without the library: where it comes from and is looked for.
local load = ffi.load
ffi.load = function() error("libmiras.so: no such file", 0) end
local ok, sentence = pcall(loadfile "examples/lua/miras.lua")
ffi.load = load
expect(not ok and sentence:find "no such file\n.*examples/shared/miras.c.*LD_LIBRARY_PATH",
       sentence)
os.exit(wrong)
