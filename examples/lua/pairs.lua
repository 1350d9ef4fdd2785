-- pairs.lua: a memory learns what four guards of a game have seen, forgets nothing by being saved,
-- and is rolled back: examples/csharp's sample in Lua. README.md says how it is run.
package.path = (arg[0]:match ".*/" or "") .. "?.lua;" .. package.path
local miras = require "miras"

local guards = {"gate", "tower", "cellar", "garden"}
local places = {{3, 1}, {-2, 4}, {0.5, -1}, {6, 2}}

local function key_of(guard)
  local key = {0, 0, 0, 0}
  key[guard] = 1
  return key
end

local function worst(m)   -- the largest error of all guards
  local error = 0
  for i in ipairs(guards) do
    local said = m:read(key_of(i))
    for j = 1, 2 do error = math.max(error, math.abs(said[j - 1] - places[i][j])) end
  end
  return error
end

local function say(...) print(string.format(...)) end

local m = miras.memory("gated-deltanet", {key_dim = 4, value_dim = 2})
for round = 1, 8 do
  local surprise = 0
  for i in ipairs(guards) do surprise = surprise + m:write(key_of(i), places[i]) end
  if round == 1 or round == 2 or round == 4 or round == 8 then
    say("round %d: surprise %.4f", round, surprise)
  end
end
say("wrong by %.3f", worst(m))

local before = m:state()
m:write(key_of(1), {100, 100})
say("after one wild report: %.3f", worst(m))
m:state(before)
say("rolled back: %.3f", worst(m))

local path = os.tmpname()
m:save(path)
local again = worst(miras.open(path))
os.remove(path)
say("saved and opened: %.3f", again)
say("refused: %s", select(2, pcall(miras.memory, "yaad", {key_dim = 5000})))
os.exit(again < 0.05 and 0 or 1)
