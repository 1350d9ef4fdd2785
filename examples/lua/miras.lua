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
  const float *value; float elapsed; float *answer; float *surprise;
} miras_memory_event;
const char *miras_result_text(int result);
int miras_preset_find(const char *name);
int miras_memory_preset(miras_memory_desc *d, int preset);
int miras_memory_desc_set(miras_memory_desc *d, const char *field, const char *value);
const char *miras_memory_desc_get(const miras_memory_desc *d, const char *field, char *text,
                                  size_t size);
const miras_memory_desc *miras_memory_desc_of(const miras_memory *m);
miras_memory *miras_memory_open(const miras_memory_desc *d, const void *allocator, char *why,
                                size_t why_size);
miras_memory *miras_memory_open_file(const char *path, const miras_memory_desc *given,
                                     const void *allocator, int *result, char *why,
                                     size_t why_size);
void miras_memory_close(miras_memory *m);
int miras_memory_write(miras_memory *m, const float *key, const float *value, float *surprise);
int miras_memory_read(miras_memory *m, const float *query, float *out);
int miras_memory_learn(miras_memory *m, const miras_memory_event *e);
int miras_memory_probabilities(const miras_memory *m, const float *answer, float *to);
void miras_memory_reset(miras_memory *m);
uint64_t miras_memory_position(const miras_memory *m);
void *miras_memory_state(miras_memory *m, size_t *bytes);
int miras_memory_save(const miras_memory *m, const char *path);
int miras_memory_load(miras_memory *m, const char *path, char *why, size_t why_size);
]]

local C = ffi.load "miras"
local floats = ffi.typeof "float[?]"
local why, surprise = ffi.new "char[256]", ffi.new "float[1]"
local memory = {}
memory.__index = memory

-- An error at the caller of the public function unless the result is MIRAS_OK.
local function check(result, sentence)
  if result == 0 then return end
  if not sentence or sentence == "" then sentence = ffi.string(C.miras_result_text(result)) end
  error(sentence, 3)
end

-- Numbers as C wants them: a table of that many, or a float array of that many, as it is.
local function numbers(what, x, count)
  local has = type(x) == "table" and #x or ffi.sizeof(x) / 4
  if has ~= count then
    error(("%s has %d numbers; %d are wanted"):format(what, has, count), 3)
  end
  return type(x) == "table" and floats(count, x) or x
end

local function wrap(handle)
  local m = setmetatable({handle = ffi.gc(handle, C.miras_memory_close)}, memory)
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
  if C.miras_memory_preset(d, C.miras_preset_find(preset)) ~= 0 then
    error("there is no preset " .. preset, 2)
  end
  for field, value in pairs(fields) do
    if C.miras_memory_desc_set(d, field, tostring(value)) ~= 0 then
      error(("there is no field %s, or it does not take %s"):format(field, value), 2)
    end
  end
  local handle = C.miras_memory_open(d, nil, why, 256)
  if handle == nil then error(ffi.string(why), 2) end
  return wrap(handle)
end

-- The memory that a file describes.
local function open_file(path)
  local result = ffi.new "int[1]"
  local handle = C.miras_memory_open_file(path, nil, nil, result, why, 256)
  if handle == nil then check(result[0], ffi.string(why)) end
  return wrap(handle)
end

-- Learns a pair and returns how surprised it was.
function memory:write(key, value)
  key, value = numbers("the key", key, self.key_size), numbers("the value", value, self.value_size)
  check(C.miras_memory_write(self.handle, key, value, surprise))
  return surprise[0]
end

-- Answers into out, or into a new array; returns it.
function memory:read(query, out)
  query = numbers("the query", query, self.query_size)
  out = out and numbers("the answer", out, self.answer_size) or floats(self.answer_size)
  check(C.miras_memory_read(self.handle, query, out))
  return out
end

-- Answers a key, then learns its value, after a time that counts as `elapsed` writes (1 if nil).
function memory:learn(key, value, elapsed)
  key, value = numbers("the key", key, self.key_size), numbers("the value", value, self.value_size)
  local out = floats(self.answer_size)
  local e = ffi.new("miras_memory_event", {key = key, value = value, answer = out,
                                           surprise = surprise, elapsed = elapsed or 1})
  check(C.miras_memory_learn(self.handle, e))
  return out, surprise[0]
end

-- Of categories: an answer turned into probabilities, in place.
function memory:probabilities(answer)
  answer = numbers("the answer", answer, self.answer_size)
  check(C.miras_memory_probabilities(self.handle, answer, answer))
  return answer
end

-- The state as a string; with a string back to that state.
function memory:state(from)
  local size = ffi.new "size_t[1]"
  local at = C.miras_memory_state(self.handle, size)
  local bytes = tonumber(size[0])
  if not from then return ffi.string(at, bytes) end
  if #from ~= bytes then
    error(("the state has %d bytes; %d are wanted"):format(#from, bytes), 2)
  end
  ffi.copy(at, from, bytes)
end

-- Gives the memory back at once; else the collector does, which does not know how large it is.
function memory:close()
  C.miras_memory_close(ffi.gc(self.handle, nil))
  self.handle = nil
end

function memory:reset() C.miras_memory_reset(self.handle) end
function memory:position() return tonumber(C.miras_memory_position(self.handle)) end
function memory:save(path) check(C.miras_memory_save(self.handle, path)) end
function memory:load(path)
  local result = C.miras_memory_load(self.handle, path, why, 256)
  check(result, result ~= 0 and ffi.string(why))
end

return {memory = open_preset, open = open_file, C = C}
