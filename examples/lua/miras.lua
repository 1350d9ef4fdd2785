-- miras.lua: a memory of miras.h for LuaJIT, over the shared library of examples/shared.
--
--     local miras = require "miras"
--     local m = miras.memory("yaad", {key_dim = 8, value_dim = 2, bias = "l2"})
--     local surprise = m:write({1, 0, ...}, {0.5, -0.25})    -- tables, or float arrays of ffi
--     local answer = m:read {1, 0, ...}                      -- a float array: answer[0], ...
--     m:save "pairs.memory"
--     local again = miras.open "pairs.memory"
--
-- What the library refuses is an error with its sentence. The fields are those of miras.h, by the
-- names that files have. miras.C has every call that is declared here, for more ffi.cdef.
local ffi = require "ffi"

ffi.cdef [[
typedef struct { uint64_t block[128]; } miras_memory_desc;   /* examples/shared/miras.c: it fits */
typedef struct miras_memory miras_memory;
typedef struct {
  const float *key; const int32_t *index; const float *entry; int count;
  const float *value; const float *elapsed; float *answer; float *surprise;
} miras_memory_event;
const char *miras_result_text(int result);
int miras_preset_find(const char *name);
const char *miras_preset_name(int preset);
int miras_memory_preset(miras_memory_desc *d, int preset);
int miras_memory_desc_set(miras_memory_desc *d, const char *field, const char *value);
int miras_memory_desc_change(miras_memory_desc *d, const char *field, const char *value,
                             char *said, size_t said_size);
const char *miras_memory_desc_get(const miras_memory_desc *d, const char *field, char *text,
                                  size_t size);
const char *miras_memory_desc_field(int i);
const miras_memory_desc *miras_memory_desc_of(const miras_memory *m);
miras_memory *miras_memory_open(const miras_memory_desc *d, const void *allocator, char *why,
                                size_t why_size);
miras_memory *miras_memory_open_file(const char *path, const miras_memory_desc *given,
                                     const void *allocator, int *result, char *why,
                                     size_t why_size);
void miras_close(void *object);
int miras_memory_can_write(const miras_memory *m, char *why, size_t why_size);
int miras_memory_write(miras_memory *m, const float *key, const float *value, float *surprise);
int miras_memory_read(miras_memory *m, const float *query, float *out);
int miras_memory_learn(miras_memory *m, const miras_memory_event *e);
int miras_memory_probabilities(const miras_memory *m, const float *answer, float *to);
void miras_memory_reset(miras_memory *m);
uint64_t miras_memory_position(const miras_memory *m);
void *miras_memory_state(miras_memory *m, size_t *bytes);
int miras_save(const void *object, const char *path);
int miras_load(void *object, const char *path, char *why, size_t why_size);
]]

local found, C = pcall(ffi.load, "miras")
if not found then
  error(C .. "\nmiras.lua calls a shared library; examples/shared/miras.c has the command that " ..
        "builds it.\nIt is looked for in the folders of LD_LIBRARY_PATH (macOS: " ..
        "DYLD_LIBRARY_PATH, Windows: PATH) and of the system", 0)
end
local floats = ffi.typeof "float[?]"
local why, surprise = ffi.new "char[256]", ffi.new "float[1]"
local memory = {}
memory.__index = memory

-- An error at the caller of the public function.
local function refuse(sentence, ...) error(sentence:format(...), 4) end

-- Such an error unless the result is MIRAS_OK, with the file that it is about.
local function check(result, sentence, path)
  if result == 0 then return end
  if not sentence or sentence == "" then sentence = ffi.string(C.miras_result_text(result)) end
  refuse("%s%s", path and path .. ": " or "", sentence)
end

local function string_of(what, x)
  if type(x) ~= "string" then refuse("%s is of type %s; a string is wanted", what, type(x)) end
  return x
end

-- What a method is called on: a memory that is open.
local function handle_of(self)
  if getmetatable(self) ~= memory then
    refuse "this is called on no memory; methods have a colon: m:read(..), not m.read(..)"
  end
  return self.handle or refuse "the memory is closed"
end

local arrays = {}   -- float[n] by n

-- Numbers as C wants them: a table of that many, or a float array of that many, as it is.
local function numbers(what, x, count)
  arrays[count] = arrays[count] or ffi.typeof("float[$]", count)
  if ffi.istype(arrays[count], x) then return x end
  local has = type(x) == "table" and #x or ffi.istype(floats, x) and ffi.sizeof(x) / 4
  if not has then
    refuse("%s is of type %s; a table or a float array of %d numbers is wanted", what,
           type(x) == "cdata" and tostring(ffi.typeof(x)) or type(x), count)
  elseif has ~= count then
    refuse("%s has %d numbers; %d are wanted", what, has, count)
  elseif type(x) ~= "table" then
    return x
  end
  local all, array = pcall(floats, count, x)
  return all and array or refuse("%s holds what is no number", what)
end

-- Letters that are changed, left out or put in between two words.
local function edits(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local before = row[0]
    row[0] = i
    for j = 1, #b do
      local change = before + (a:byte(i) == b:byte(j) and 0 or 1)
      before = row[j]
      row[j] = math.min(change, row[j - 1] + 1, before + 1)
    end
  end
  return row[#b]
end

-- "; is it NAME?" of the one of name(0), name(1), .. that is nearest; "" where more edits than a
-- third of the letters and one lead to each.
local function nearest(word, name)
  local least, hint, i = math.min(#word, math.floor(#word / 3) + 2), "", 0
  while name(i) ~= nil do
    local known = ffi.string(name(i))
    if edits(word, known) < least then
      least, hint = edits(word, known), "; is it " .. known .. "?"
    end
    i = i + 1
  end
  return hint
end

local function wrap(handle)
  local m = setmetatable({handle = ffi.gc(handle, C.miras_close)}, memory)
  local text = ffi.new "char[32]"
  local function field(name)
    return tonumber(ffi.string(C.miras_memory_desc_get(C.miras_memory_desc_of(handle), name, text,
                                                       32)))
  end
  local heads = field "batch" * field "heads"
  m.query_size, m.answer_size = heads * field "key_dim", heads * field "value_dim"
  m.key_size = m.query_size * field "inner_steps"
  m.value_size = m.answer_size * field "inner_steps"
  return m
end

-- A memory of a preset, with other values of some fields: numbers, or words of enumerations.
local function open_preset(preset, fields)
  local d = ffi.new "miras_memory_desc"
  if C.miras_memory_preset(d, C.miras_preset_find(string_of("the preset", preset))) ~= 0 then
    check(1, "there is no preset " .. preset .. nearest(preset, C.miras_preset_name))
  end
  if fields ~= nil and type(fields) ~= "table" then
    check(1, "the fields are of type " .. type(fields) .. "; a table is wanted")
  end
  for field, value in pairs(fields or {}) do
    field, value = tostring(field), tostring(value)
    if C.miras_memory_desc_get(d, field, why, 256) == nil then
      check(1, "files have no field " .. field .. nearest(field, C.miras_memory_desc_field))
    end
    local result = C.miras_memory_desc_set(d, field, value)
    if result ~= 0 then
      C.miras_memory_desc_change(d, field, value, why, 256)   -- which refuses it, and says why
      check(result, ffi.string(why))
    end
  end
  local handle = C.miras_memory_open(d, nil, why, 256)
  if handle == nil then check(2, ffi.string(why)) end
  return wrap(handle)
end

-- The memory that a file describes.
local function open_file(path)
  local result = ffi.new "int[1]"
  local handle = C.miras_memory_open_file(string_of("the path", path), nil, nil, result, why, 256)
  if handle == nil then check(result[0], ffi.string(why), path) end
  return wrap(handle)
end

-- A descriptor that cannot learn so: which field of it, and what is allowed.
local function cannot(self)
  if C.miras_memory_can_write(self.handle, why, 256) == 0 then return ffi.string(why) end
  return "inner_steps is not 1; for learn it must be"
end

-- Learns a pair and returns how surprised it was.
function memory:write(key, value)
  local handle = handle_of(self)
  key, value = numbers("the key", key, self.key_size), numbers("the value", value, self.value_size)
  local result = C.miras_memory_write(handle, key, value, surprise)
  check(result, result == 2 and cannot(self))
  return surprise[0]
end

-- Answers into out, or into a new array; returns it.
function memory:read(query, out)
  local handle = handle_of(self)
  query = numbers("the query", query, self.query_size)
  out = out and numbers("the answer", out, self.answer_size) or floats(self.answer_size)
  check(C.miras_memory_read(handle, query, out))
  return out
end

-- Answers a key, then learns its value, after a time that counts as `elapsed` writes (1 if nil).
-- inner_steps must be 1.
function memory:learn(key, value, elapsed)
  local handle = handle_of(self)
  key = numbers("the key", key, self.query_size)
  value = numbers("the value", value, self.answer_size)
  if type(elapsed or 1) ~= "number" then check(1, "elapsed is no number") end
  local out = floats(self.answer_size)
  local passed = ffi.new("float[1]", elapsed or 1)
  local e = ffi.new("miras_memory_event", {key = key, value = value, answer = out,
                                           surprise = surprise, elapsed = passed})
  local result = C.miras_memory_learn(handle, e)
  if result == 1 then   -- all else was checked
    check(1, "elapsed is " .. elapsed .. "; it must not be negative, and 1 of a memory " ..
             "without a decay gate")
  end
  check(result, result == 2 and cannot(self))
  return out, surprise[0]
end

-- Of categories (bias cross-entropy): an answer turned into probabilities, in place.
function memory:probabilities(answer)
  local handle = handle_of(self)
  answer = numbers("the answer", answer, self.answer_size)
  check(C.miras_memory_probabilities(handle, answer, answer),
        "probabilities are of memories whose bias is cross-entropy")
  return answer
end

-- The state as a string; with a string back to that state.
function memory:state(from)
  local size = ffi.new "size_t[1]"
  local at = C.miras_memory_state(handle_of(self), size)
  local bytes = tonumber(size[0])
  if from == nil then return ffi.string(at, bytes) end
  if #string_of("the state", from) ~= bytes then
    check(1, ("the state has %d bytes; %d are wanted"):format(#from, bytes))
  end
  ffi.copy(at, from, bytes)
end

-- Gives the memory back at once; else the collector does, which does not know how large it is.
-- Every other call on it is refused then.
function memory:close()
  if getmetatable(self) ~= memory then handle_of(self) end
  if self.handle then C.miras_close(ffi.gc(self.handle, nil)) end
  self.handle = nil
end

function memory:reset() C.miras_memory_reset(handle_of(self)) end
function memory:position() return tonumber(C.miras_memory_position(handle_of(self))) end
function memory:save(path)
  check(C.miras_save(handle_of(self), string_of("the path", path)), nil, path)
end
function memory:load(path)
  local result = C.miras_load(handle_of(self), string_of("the path", path), why, 256)
  check(result, result ~= 0 and ffi.string(why), path)
end

return {memory = open_preset, open = open_file, C = C}
