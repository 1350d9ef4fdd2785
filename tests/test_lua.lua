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
refused("the answer has 3 numbers; 4", m.read, m, key, ffi.new "float[3]")
refused("cannot convert", m.read, m, ffi.new "double[3]")
refused("the state has 2 bytes", m.state, m, "ab")
refused("descriptor", m.probabilities, m, answer)
refused("argument", m.learn, m, key, value, 2.5)   -- it has no decay
m:save(path)
m:reset()
expect(near(m:read(key)[1], 0), "reset")
m:load(path)
expect(near(m:read(key)[1], -2), "loaded")
expect(near(miras.open(path):read(key)[2], 3), "opened")
local wider = miras.memory("deltanet", {key_dim = 4, value_dim = 2, heads = 2})
refused("key_dim", wider.load, wider, path)
os.remove(path)
refused("file", miras.open, path)
refused("no preset yad", miras.memory, "yad", {})
refused("no field learning_rat", miras.memory, "yaad", {learning_rat = 1})
refused("does not take l3", miras.memory, "yaad", {bias = "l3"})

local c = miras.memory("categories", {key_dim = 2, value_dim = 3})
for _ = 1, 50 do c:write({1, 0}, {0, 1, 0}) end
local p = c:probabilities(c:read {1, 0})
expect(p[1] > 0.8 and near(p[0] + p[1] + p[2], 1), "probabilities")

-- Memories of 1 MB are given back, by the collector and by close, while another is at work.
for i = 1, 1000 do
  local large = miras.memory("deltanet", {key_dim = 512, value_dim = 512})
  if i % 2 == 0 then large:close() elseif i % 10 == 1 then collectgarbage() end
  if i == 2 then refused("argument", large.write, large, floats(512), floats(512)) end
end
collectgarbage()
local file = io.open "/proc/self/statm"
if file then expect(file:read "*n" < 65536, "more than 256 MB are still held") end
expect(near(m:read(key)[1], -2), "after all of these")
os.exit(wrong)
